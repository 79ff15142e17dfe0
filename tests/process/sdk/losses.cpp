// SPDX-License-Identifier: Apache-2.0
// Ranks of one host that die or stop in the middle of a call.
#include "tests/process/sdk/one_call.hpp"
#include "tests/process/sdk/workers.hpp"
#include "worker_sdk/src/sanitizers.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <random>
#include <string>
#include <thread>

using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

/// Milliseconds. A process under a sanitizer takes long to die.
constexpr long long bound = ddprun::is_sanitized ? 2000 : 50;

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Kills rank 1 of three at some moment in a mix of all calls. Returns how long the others took to
/// notice.
long long slowest_notice(std::chrono::microseconds moment) {
    Workers workers(3, {"endless_mix"});
    workers.await_line("ready");
    std::this_thread::sleep_for(moment);
    const auto killed_at = monotonic_ms();
    workers.kill(1, SIGKILL);
    long long slowest = 0;
    for (const int rank : {0, 2}) {
        CHECK(workers.exit_code(rank) == peer_lost);
        const auto& output = workers.output(rank);
        CAPTURE(output);
        CHECK(mentions(output, " ranks 1\n"));
        CHECK(mentions(output, ": lost rank 1"));
        slowest = std::max(slowest, moment_in(output) - killed_at);
    }
    return slowest;
}

/// The same in a single kind of call.
long long slowest_notice_in(
    const std::string& call, const std::string& way, int count, int victim) {
    CAPTURE(way);
    CAPTURE(count);
    Workers workers(count, {"endless_call"}, {{"SDK_WORKER_CALL", call}, {"SDK_WORKER_WAY", way}});
    workers.await_line("ready");
    const auto killed_at = monotonic_ms();
    workers.kill(victim, SIGKILL);
    long long slowest = 0;
    for (int rank = 0; rank < count; ++rank) {
        if (rank == victim) continue;
        CHECK(workers.exit_code(rank) == peer_lost);
        const auto& output = workers.output(rank);
        CAPTURE(output);
        CHECK(mentions(output, " ranks " + std::to_string(victim) + "\n"));
        slowest = std::max(slowest, moment_in(output) - killed_at);
    }
    return slowest;
}

}  // namespace

TEST_CASE("sdk: a rank killed in any call is named by the others of its host within 50 ms") {
    std::random_device entropy;
    const auto seed = entropy();
    CAPTURE(seed);
    std::mt19937 random(seed);
    long long quickest = 1'000'000;
    // A busy machine may delay some attempts; without quick detection every attempt takes long.
    for (int i = 0; i < 8 || (quickest >= bound && i < 40); ++i)
        quickest = std::min(quickest, slowest_notice(std::chrono::microseconds(random() % 20'000)));
    CHECK(quickest < bound);
}

TEST_CASE("sdk: in every kind of call, of 2 to 7 ranks, a killed rank is named by all others") {
    const std::string ways[] = {"one_by_one", "in_flight", "sub_group"};
    constexpr int most_ranks = ddprun::is_sanitized ? 3 : 7;
    int turn = 0;
    for (const auto& call : call_names()) {
        CAPTURE(call);
        // A busy machine may delay some attempts; without detection of the loss every attempt takes
        // long.
        long long quickest = 1'000'000;
        for (int i = 0; i < most_ranks - 1 || (quickest >= bound && i < 40); ++i, ++turn) {
            const int count = 2 + i % (most_ranks - 1);
            const int victim = turn % 2 == 0 ? 0 : count - 1;
            const auto& way = ways[static_cast<std::size_t>(turn) % std::size(ways)];
            quickest = std::min(quickest, slowest_notice_in(call, way, count, victim));
        }
        CHECK(quickest < bound);
    }
}

TEST_CASE("sdk: a stopped rank is named by the Timeout of the others") {
    Workers workers(3, {"endless_collectives"}, {{"SDK_WORKER_TIMEOUT_MS", "5000"}});
    workers.await_line("ready");

    workers.kill(1, SIGSTOP);

    for (const int rank : {0, 2}) {
        CHECK(workers.exit_code(rank) == timed_out);
        CAPTURE(workers.output(rank));
        CHECK(mentions(workers.output(rank), "late ranks 1 in "));
        CHECK(mentions(workers.output(rank), "rank 1 did not come within 5000 ms"));
    }
}
