// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/topology.hpp"

#include "tests/support/machines.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;
using namespace ddprun::test;

TEST_CASE("a list of CPUs is read as the kernel writes it") {
    CHECK(parse_cpu_list("0-3,8,10-11\n") == CpuList{0, 1, 2, 3, 8, 10, 11});
    CHECK(parse_cpu_list("7") == CpuList{7});
    CHECK(parse_cpu_list("") == CpuList{});
    CHECK(parse_cpu_list("\n") == CpuList{});
}

TEST_CASE("what is no list of CPUs is refused") {
    for (const std::string text :
         {"a", "1-", "-1", "3-1", "1,", ",1", "1 2", "1,1", "2,0-4", "65536", "99999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_cpu_list(text));
    }
}

TEST_CASE("a list is written as it is read") {
    for (const std::string text : {"", "0", "0-1", "0-3,8,10-11", "1,3,5", "0-65535"})
        CHECK(describe(*parse_cpu_list(text)) == text);
}

TEST_CASE("what two lists share is found") {
    CHECK(common({0, 1, 2, 5}, {1, 5, 9}) == CpuList{1, 5});
    CHECK(contains({0, 4, 9}, 4));
    CHECK_FALSE(contains({0, 4, 9}, 5));
}

namespace {

/// Bus numbers of the GPUs that a program sees; "?" when unknown.
std::string seen(const std::optional<std::string>& visible_devices) {
    const auto gpus = visible_gpus(machine(two_sockets_eight_gpus).gpus, visible_devices);
    if (!gpus) return "?";
    std::string text;
    for (const auto& gpu : *gpus)
        text += (text.empty() ? "" : " ") + gpu.pci_address.substr(5, 2);
    return text;
}

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES chooses and orders the GPUs as the driver understands it") {
    CHECK(seen(std::nullopt) == "1b 43 52 61 9d c3 d1 df");
    CHECK(seen("4,0") == "9d 1b");
    CHECK(seen(" 2 , 3 ") == "52 61");
    CHECK(seen("GPU-of-0000:d1:00.0,GPU-of-0000:1b:00.0") == "d1 1b");
    CHECK(seen("GPU-of-0000:d") == "d1");
    CHECK(seen("MIG-GPU-of-0000:52:00.0/1/0") == "52");
}

TEST_CASE("the list of visible GPUs ends where the driver stops to believe it") {
    CHECK(seen("") == "");
    CHECK(seen("-1") == "");
    CHECK(seen("NoDevFiles") == "");
    CHECK(seen("1,8,2") == "43");
    CHECK(seen("1,,2") == "43");
    CHECK(seen("1,2,1") == "");
    CHECK(seen("GPU-of-0000:d1:00.0,0") == "d1");
}

TEST_CASE("a MIG device named by its own UUID may be on any GPU") {
    CHECK(seen("MIG-8f4b1a2c-0d5e-5c3d-9a52-5d6a4f0e7b1c") == "?");
}

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
        std::string seen;
        for (const auto& device : visible_devices(row.variable, row.gpu_count))
            seen += (seen.empty() ? "" : ",") + device;
        CHECK(seen == row.seen);
    }
}
