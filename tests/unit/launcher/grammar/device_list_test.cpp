// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/device_list.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::launcher;

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
    CHECK(read("gpu:1,3").find("'gpu:1' is no device") != std::string::npos);
    CHECK(read("0,0").find("named twice") != std::string::npos);
    CHECK(read("0-3,2").find("named twice") != std::string::npos);
    CHECK(read("8").find("this machine has 8 GPUs, 0 to 7") != std::string::npos);
}
