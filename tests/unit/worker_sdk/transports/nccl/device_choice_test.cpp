// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/device_choice.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>

using namespace ddprun::nccl;
using ddprun::groups::GroupError;

namespace {

DeviceChoice chosen(int visible, int local_rank, int ranks, bool shares = false) {
    const auto choice = choose_device(visible, local_rank, ranks, shares);
    REQUIRE(std::holds_alternative<DeviceChoice>(choice));
    return std::get<DeviceChoice>(choice);
}

std::string refusal(int visible, int local_rank, int ranks) {
    const auto choice = choose_device(visible, local_rank, ranks, false);
    REQUIRE(std::holds_alternative<GroupError>(choice));
    return std::get<GroupError>(choice).text;
}

}  // namespace

TEST_CASE("with a GPU for each rank it is the one of its local rank") {
    for (int local_rank = 0; local_rank < 8; ++local_rank)
        CHECK(chosen(8, local_rank, 8) == DeviceChoice{local_rank, 1});
}

TEST_CASE("with several GPUs for each rank they are neighbours") {
    CHECK(chosen(8, 0, 2) == DeviceChoice{0, 4});
    CHECK(chosen(8, 1, 2) == DeviceChoice{4, 4});
    CHECK(chosen(8, 2, 3) == DeviceChoice{4, 2});
}

TEST_CASE("a process that sees one GPU has that one, whatever its local rank") {
    CHECK(chosen(1, 0, 8) == DeviceChoice{0, 1});
    CHECK(chosen(1, 5, 8) == DeviceChoice{0, 1});
}

TEST_CASE("a rank without a GPU gets an error with their number and --share-gpu") {
    const auto text = refusal(2, 3, 4);

    CHECK(text.find("4 ranks on this node and 2 GPUs") != std::string::npos);
    CHECK(text.find("local rank 3") != std::string::npos);
    CHECK(text.find("--share-gpu") != std::string::npos);
}

TEST_CASE("a process that sees no GPU gets an error with possible reasons") {
    CHECK(refusal(0, 0, 1).find("CUDA_VISIBLE_DEVICES") != std::string::npos);
}

TEST_CASE("ranks that share GPUs take turns") {
    CHECK(chosen(1, 3, 4, true) == DeviceChoice{0, 1});
    CHECK(chosen(2, 3, 4, true) == DeviceChoice{1, 1});
    CHECK(chosen(8, 3, 4, true) == DeviceChoice{3, 1});
}
