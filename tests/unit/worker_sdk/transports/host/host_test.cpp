// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/reduction.hpp"
#include "worker_sdk/src/transports/host/hosts.hpp"
#include "worker_sdk/src/transports/host/page_ranges.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ddprun;
using namespace ddprun::groups;

using HostRanks = std::vector<std::vector<int>>;

TEST_CASE("equal host ids are one host, in the order of first ranks") {
    CHECK(host_numbers({"b", "a", "b", "c"}) == "0,1,0,2");
    CHECK(ranks_by_host("0,1,0,2", 4) == HostRanks{{0, 2}, {1}, {3}});
    CHECK(ranks_by_host("0", 1) == HostRanks{{0}});
}

TEST_CASE("invalid host numbers are refused") {
    for (const char* text : {"", "1", "0,2", "0,,1", "0,x", "0,-1", "0,99999999999", "0,0"})
        CHECK(ranks_by_host(text, 3).empty());
}

TEST_CASE("memory that is given back is found again, joined with its neighbours") {
    PageRanges ranges(100);
    CHECK(ranges.take(40) == std::size_t{0});
    CHECK(ranges.take(40) == std::size_t{40});
    CHECK(!ranges.take(40));
    CHECK(ranges.take(20) == std::size_t{80});

    ranges.give_back(40, 40);
    CHECK(!ranges.take(41));
    ranges.give_back(0, 40);
    ranges.give_back(80, 20);
    CHECK(ranges.take(100) == std::size_t{0});
    CHECK(!ranges.take(1));
}

TEST_CASE("of no memory nothing can be taken") {
    PageRanges none(0);
    CHECK(!none.take(1));
}

TEST_CASE("a reduction may write where it reads, in blocks and in what is left over") {
    for (const auto count : std::initializer_list<std::size_t>{0, 1, 2047, 2048, 2049, 10'000}) {
        std::vector<std::vector<float>> ranks;
        for (int rank = 0; rank < 3; ++rank)
            ranks.emplace_back(count, static_cast<float>(rank + 1));
        std::vector<const std::byte*> sources;
        std::vector<std::byte*> targets;
        for (auto& one : ranks) {
            targets.push_back(reinterpret_cast<std::byte*>(one.data()));
            sources.push_back(targets.back());
        }

        reduce_all(ElementType::float32, Op::average, sources, targets, count);

        for (const auto& one : ranks)
            CHECK(one == std::vector<float>(count, 2.0F));
    }
}

TEST_CASE("what one rank has alone is its own average, least and product") {
    std::vector<std::int32_t> values{5, -7};
    auto* bytes = reinterpret_cast<std::byte*>(values.data());
    for (const auto op : {Op::sum, Op::average, Op::min, Op::max, Op::product})
        reduce_all(ElementType::int32, op, {bytes}, {bytes}, values.size());
    CHECK(values == std::vector<std::int32_t>{5, -7});
}
