// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/shard_sets.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::checkpoint;

namespace {

using Names = std::vector<ShardName>;

/// All files of a set.
Names all_of(Position position, std::uint64_t world) {
    Names names;
    for (std::uint64_t index = 0; index < world; ++index)
        names.push_back({position, world, index});
    return names;
}

}  // namespace

TEST_CASE("the name of a shard has its position, index and number of ranks") {
    const ShardName shard{{3, 1234}, 16, 11};
    const std::string name = "checkpoint-0000000003-000000001234.shard-11-of-16.ddp";
    CHECK(shard_file_name(shard) == name);
    CHECK(shard_in(name) == shard);
    // The two kinds of files are not taken for each other.
    CHECK_FALSE(position_in(name));
    CHECK_FALSE(shard_in(file_name(Position{3, 1234})));
}

TEST_CASE("other names are no shards") {
    for (const std::string name :
         {"checkpoint-3-4.shard-2-of-2.ddp",
          "checkpoint-3-4.shard-0-of-0.ddp",
          "checkpoint-3-4.shard-0-of-1000001.ddp",
          "checkpoint-3-4.shard-0.ddp",
          "checkpoint-3-4.shard--1-of-2.ddp",
          "checkpoint-3-4.shard-1-of-2",
          "checkpoint-3-4.shard-1-of-2.ddp.ddp",
          "checkpoint-3-4.shard-1-of-99999999999999999999.ddp",
          "checkpoint-3.shard-1-of-2.ddp",
          ".shard-1-of-2.ddp",
          ".ddp",
          ""})
        CHECK_FALSE_MESSAGE(shard_in(name), name);
}

TEST_CASE("a set is complete when each of its files is somewhere, the newest comes first") {
    const auto old = all_of({0, 5}, 2), young = all_of({1, 3}, 3);
    CHECK(complete_sets({}).empty());
    CHECK(complete_sets({{old[0]}, {young[0], young[1]}}).empty());
    CHECK(
        complete_sets({{old[0], young[2], young[1]}, {young[0], old[1]}}) ==
        std::vector<ShardSet>{{{1, 3}, {1, 0, 0}}, {{0, 5}, {0, 1}}});
}

TEST_CASE("files of another number of ranks do not complete a set") {
    CHECK(complete_sets({{{{0, 5}, 2, 0}, {{0, 5}, 3, 1}}}).empty());
}

TEST_CASE("ranks that all have a set read a part of it each") {
    const auto names = all_of({0, 5}, 4);
    CHECK(complete_sets({names, names, names}) == std::vector<ShardSet>{{{0, 5}, {0, 1, 2, 0}}});
}
