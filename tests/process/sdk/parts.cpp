// SPDX-License-Identifier: Apache-2.0
/// Parts of different sizes, in one process.
#include "tests/process/sdk/thread_ranks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

ProcessGroup alone() {
    return ProcessGroup(new ddprun_group{groups::Group::create_alone()});
}

/// The transport of one of two ranks: the other one has the same counts, and arrives late.
class SlowPeer : public groups::Transport {
public:
    explicit SlowPeer(std::vector<milliseconds>& timeouts) : timeouts_(timeouts) {}

    groups::Outcome run(const groups::Collective& step, milliseconds timeout) override {
        timeouts_.push_back(timeout);
        std::this_thread::sleep_for(50ms);
        if (step.counts) return {};
        const auto* const own = static_cast<const std::byte*>(step.input);
        auto* const all = static_cast<std::byte*>(step.data);
        for (std::size_t rank = 0; rank < 2; ++rank)
            std::copy_n(own, step.bytes(), all + rank * step.bytes());
        return {};
    }
    void abort() override {}
    bool is_broken() override { return false; }

private:
    std::vector<milliseconds>& timeouts_;
};

}  // namespace

TEST_CASE("sdk: in a world of one, a part for which there is no room is a Mismatch") {
    std::vector<std::int64_t> input(1000, 7);
    std::vector<std::int64_t> output(1000, 1);
    const auto group = alone();
    std::string one_side;
    std::string other_side;

    group.all_to_all_v(input.data(), {10}, output.data(), {10}).wait();
    CHECK(std::count(output.begin(), output.end(), 7) == 10);
    try {
        group.all_to_all_v(input.data(), {1000}, output.data(), {11}).wait();
    } catch (const Mismatch& error) {
        one_side = error.one_side();
        other_side = error.other_side();
    }

    CHECK(one_side == "rank 0 is at call 2: all_to_all_v, with 1000 int64 for rank 0");
    CHECK(other_side == "rank 0 is at call 2: all_to_all_v, with room for 11 int64 from rank 0");
    CHECK(std::count(output.begin(), output.end(), 7) == 10);
    CHECK_THROWS_AS(group.barrier().wait(), Mismatch);  // final, as between several ranks
}

TEST_CASE("sdk: both steps of a call with parts are within one timeout") {
    std::vector<milliseconds> timeouts;
    {
        const ProcessGroup group(new ddprun_group{groups::Group::create(
            {0, 2, Backend::loopback, 10s},
            [&]() -> groups::Group::Opened { return std::make_unique<SlowPeer>(timeouts); },
            nullptr)});
        const std::vector<float> input(4);
        std::vector<float> output(4);
        group.all_to_all_v(input.data(), {2, 2}, output.data(), {2, 2}).wait();
    }

    REQUIRE(timeouts.size() == 2);
    CHECK(timeouts[0] <= 10s);
    CHECK(timeouts[1] <= timeouts[0] - 50ms);
    CHECK(timeouts[1] > 0ms);
}
