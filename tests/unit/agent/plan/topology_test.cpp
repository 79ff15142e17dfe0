// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/topology.hpp"

#include "tests/support/machines.hpp"

#include <doctest/doctest.h>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

/// Bus numbers of what a program sees, "?" when that cannot be told.
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
