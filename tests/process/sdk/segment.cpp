// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/segment.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;

namespace {

/// The same memory mapped a second time, as in another process.
std::shared_ptr<Segment> opened_again(const Segment& segment) {
    const int descriptor = ::fcntl(segment.descriptor(), F_DUPFD_CLOEXEC, 0);
    return std::get<std::shared_ptr<Segment>>(Segment::open(descriptor, segment.ranks()));
}

GroupError mismatch_seen_by(int rank) {
    return mismatch_between(
        std::string(300, static_cast<char>('a' + rank)),
        std::string(300, static_cast<char>('A' + rank)));
}

}  // namespace

TEST_CASE("sdk: ranks that fail at the same time all read one complete error") {
    constexpr int ranks = 3;
    for (int trial = 0; trial < 300; ++trial) {
        const auto first = std::get<std::shared_ptr<Segment>>(Segment::create(ranks));
        std::vector<std::shared_ptr<Segment>> views{
            first, opened_again(*first), opened_again(*first)};
        std::vector<std::string> read(ranks);
        {
            std::vector<std::jthread> threads;
            for (int rank = 0; rank < ranks; ++rank)
                threads.emplace_back([&, rank] {
                    auto& view = *views[static_cast<std::size_t>(rank)];
                    view.fail(rank, mismatch_seen_by(rank));
                    read[static_cast<std::size_t>(rank)] = written(view.error());
                });
        }
        const std::set<std::string> different(read.begin(), read.end());
        REQUIRE(different.size() == 1);
        const auto& said = *different.begin();
        CHECK(
            (said == written(mismatch_seen_by(0)) || said == written(mismatch_seen_by(1)) ||
             said == written(mismatch_seen_by(2))));
    }
}

TEST_CASE("sdk: of two errors of one rank the first is kept") {
    const auto segment = std::get<std::shared_ptr<Segment>>(Segment::create(1));
    CHECK(!segment->has_failed());
    segment->fail(0, mismatch_seen_by(0));
    segment->fail(0, mismatch_seen_by(1));
    CHECK(segment->error().one_side == mismatch_seen_by(0).one_side);
}
