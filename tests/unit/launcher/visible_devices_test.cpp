// SPDX-License-Identifier: Apache-2.0
#include "launcher/visible_devices.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::launcher;

TEST_CASE("CUDA_VISIBLE_DEVICES is read as CUDA reads it") {
    struct Row {
        std::string variable;
        int gpu_count;
        std::string seen;
    };
    const Row rows[] = {
        {"0,1,2", 8, "0,1,2"},
        {" 3 , 1 ", 8, "3,1"},
        {"", 8, ""},
        {"-1", 8, ""},
        {"0,-1,2", 8, "0"},
        {"0,8,1", 8, "0"},
        {"0,x,1", 8, "0"},
        {"0,1,0", 8, ""},
        {"NoDevFiles", 8, ""},
        {"GPU-aa,GPU-bb", 8, "GPU-aa,GPU-bb"},
        {"GPU-aa,GPU-bb", 1, "GPU-aa"},
        {"GPU-aa,0", 8, "GPU-aa"},
        {"0,GPU-aa", 8, "0"},
        {"MIG-a,MIG-b,MIG-c", 1, "MIG-a,MIG-b,MIG-c"},
        {"MIG-GPU-a/1/0", 1, "MIG-GPU-a/1/0"},
        {"MIG-a,GPU-b", 8, "MIG-a"},
        {"0,1", 0, ""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.variable);
        CHECK(device_list(visible_devices(row.variable, row.gpu_count)) == row.seen);
    }
}

TEST_CASE("a list of devices holds numbers, ranges and UUIDs, each once") {
    const auto read = [](const std::string& text, int gpu_count = 8) {
        const auto devices = parse_devices(text, gpu_count);
        return devices ? device_list(*devices) : devices.error().context;
    };
    CHECK(read("0") == "0");
    CHECK(read("4, 0-2") == "4,0,1,2");
    CHECK(read("GPU-a-b,MIG-c") == "GPU-a-b,MIG-c");
    CHECK(read("30-31", 0) == "30,31");
    for (const auto* wrong : {"", "a", "1-", "-1", "2-1", "0,", ",0", "0-9999999", "1 2"}) {
        CAPTURE(wrong);
        CHECK(read(wrong, 0).find("accepted are numbers and ranges") != std::string::npos);
    }
    CHECK(read("0,0").find("named twice") != std::string::npos);
    CHECK(read("0-3,2").find("named twice") != std::string::npos);
    CHECK(read("8").find("this machine has 8 GPUs, 0 to 7") != std::string::npos);
}
