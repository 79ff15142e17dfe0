// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/visible_devices.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::agent;

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
