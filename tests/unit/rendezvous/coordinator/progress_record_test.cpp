// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/progress_record.hpp"

#include "rendezvous/control/text.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;

namespace {

ProgressRecord::Round failed_at(
    std::optional<std::uint64_t> step,
    Duration ran_for = 10s,
    const std::string& message = "exited with code 1") {
    control::Cause cause;
    cause.worker.emplace();
    cause.worker->message = message;
    return {step, ran_for, cause};
}

/// The counts after each of these rounds.
std::vector<int> counts(const std::vector<ProgressRecord::Round>& rounds) {
    ProgressRecord record{1000};
    std::vector<int> result;
    for (const auto& one : rounds) {
        record.add(one);
        result.push_back(record.count());
    }
    return result;
}

/// The steps of a round that a worker's failure has ended.
struct Life {
    bool is_failure;
    std::uint64_t step;
};

/// After which round the rule ends a job: written as the page has it, over all rounds at once.
std::optional<std::size_t> ends_after(const std::vector<Life>& lives, std::size_t limit) {
    for (std::size_t end = 0; end < lives.size(); ++end) {
        if (!lives[end].is_failure) continue;
        std::size_t stuck = 0;
        for (std::size_t i = 0; i <= end; ++i) {
            if (!lives[i].is_failure) continue;
            const bool is_new = std::none_of(
                lives.begin(),
                lives.begin() + static_cast<std::ptrdiff_t>(i),
                [&](const Life& earlier) {
                    return earlier.is_failure && earlier.step >= lives[i].step;
                });
            stuck = is_new ? 0 : stuck + 1;
        }
        if (stuck >= limit) return end;
    }
    return std::nullopt;
}

void report(Story& job, const std::string& node, std::uint64_t step, int round) {
    job.say(
        node,
        control::Heartbeat{
            0,
            std::nullopt,
            std::nullopt,
            control::NodeProgress{round, {{0, {step, control::WorkPhase::none}}}, {}}});
}

/// A round in which both nodes get as far as this step, and a worker of the first fails.
void fail_at(Story& job, int round, std::uint64_t step) {
    job.started("a b", round);
    report(job, "a", step, round);
    report(job, "b", step, round);
    job.failed("a", round);
    job.ready("a b", round);
}

Story job_with(int rounds) {
    return Story{"2", 100, [=](control::Join& join) {
                     speaks_version_2(join);
                     join.settings.restart.rounds_without_progress = rounds;
                 }};
}

}  // namespace

TEST_CASE("a round counts unless its slowest rank did a step above all earlier ones") {
    CHECK(
        counts({failed_at(10), failed_at(10), failed_at(9), failed_at(11), failed_at(11)}) ==
        std::vector{0, 1, 2, 0, 1});
    // A counter that begins again with each epoch shows no new step.
    CHECK(counts({failed_at(100), failed_at(3), failed_at(50)}) == std::vector{0, 1, 2});
}

TEST_CASE("a round that fails before its first step counts once any round has reported one") {
    CHECK(
        counts({failed_at(10), failed_at({}), failed_at({}), failed_at(11)}) ==
        std::vector{0, 1, 2, 0});
    CHECK(
        counts({failed_at({}, 10s, "a"), failed_at({}, 10s, "b"), failed_at(1)}) ==
        std::vector{1, 1, 0});
}

TEST_CASE("without any step short rounds that fail alike count, whatever numbers they name") {
    CHECK(
        counts(
            {failed_at({}, 10s, "port 29400 is in use"),
             failed_at({}, 59s, "port 31234 is in use"),
             failed_at({}, 10s, "out of memory"),
             failed_at({}, 10s, "out of memory"),
             failed_at({}, 60s, "out of memory"),
             failed_at({}, 10s, "out of memory")}) == std::vector{1, 2, 1, 2, 0, 1});
}

TEST_CASE("without a limit no round is the last") {
    ProgressRecord record{std::nullopt};
    for (int i = 0; i < 100; ++i) {
        CHECK_FALSE(record.is_last(failed_at(1)));
        record.add(failed_at(1));
    }
}

TEST_CASE("a thousand jobs with and without progress end where the rule says, and only there") {
    std::mt19937 random{17};
    const auto below = [&random](std::uint32_t bound) { return random() % bound; };
    int ended = 0;
    for (int i = 0; i < 1000; ++i) {
        const std::size_t limit = 1 + below(4);
        // Those that always do a new step are never ended.
        const bool is_healthy = i % 2 == 0;
        std::vector<Life> lives;
        std::uint64_t step = 0;
        for (int k = 0; k < 30; ++k) {
            step = is_healthy ? step + 1 + below(50) : below(40);
            lives.push_back({below(5) != 0, step});
        }
        ProgressRecord record{static_cast<int>(limit)};
        std::optional<std::size_t> end;
        for (std::size_t k = 0; k < lives.size() && !end; ++k) {
            if (!lives[k].is_failure) continue;
            const auto one = failed_at(lives[k].step);
            if (record.is_last(one)) end = k;
            record.add(one);
        }
        CAPTURE(i);
        CHECK(end == ends_after(lives, limit));
        if (is_healthy) CHECK_FALSE(end.has_value());
        ended += end ? 1 : 0;
    }
    CHECK(ended > 400);
}

TEST_CASE(
    "rounds that fail without a new step end the job with 87, whatever is left of the budget") {
    auto job = job_with(2);
    job.join("a");
    job.join("b");
    fail_at(job, 0, 10);
    fail_at(job, 1, 12);
    job.output();
    fail_at(job, 2, 12);
    const auto lines = job.output();
    CHECK(
        std::find(
            lines.begin(),
            lines.end(),
            "forming: restart 3 of 100, 1 of 2 rounds without a new step: rank 0 on a: exited with "
            "code 7") != lines.end());

    fail_at(job, 3, 11);

    CHECK(
        job.result("b") ==
        "result failed exit_code=87 worker_failed \"rank 0 on a: exited with code 7; no restart "
        "after 2 rounds in a row without a new step (--stop-without-progress)\" host=a round=3");
}

TEST_CASE("a lost node neither counts as a round without progress nor ends their count") {
    auto job = job_with(2);
    job.join("a");
    job.join("b");
    fail_at(job, 0, 10);
    fail_at(job, 1, 10);

    job.started("a b", 2);
    job.drop("b");
    job.pass(1s, "a");
    job.ready("a", 2);
    job.join("b2");
    REQUIRE(job.status().state == "running");

    job.started("a b2", 3);
    report(job, "a", 10, 3);
    report(job, "b2", 10, 3);
    job.failed("a", 3);
    job.ready("a b2", 3);
    CHECK(job.result("a").starts_with("result failed exit_code=87 "));
}
