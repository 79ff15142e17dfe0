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
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;
using control::Cause;
using control::WorkPhase;

namespace {

using Ranks = std::vector<control::RankProgress>;
using Step = std::optional<std::uint64_t>;

Ranks at(const std::vector<Step>& steps) {
    Ranks ranks;
    for (const auto& step : steps)
        ranks.push_back({static_cast<int>(ranks.size()), {step, WorkPhase::none}});
    return ranks;
}

Cause failed(const std::string& message = "exited with code 1", int code = 1) {
    Cause cause;
    cause.worker.emplace();
    cause.worker->message = message;
    cause.worker->end = {control::WorkerEnd::Kind::exited, code, false};
    return cause;
}

Cause other(Cause::Kind kind) {
    Cause cause;
    cause.kind = kind;
    return cause;
}

/// Of one job with a node of two ranks: the counts after its rounds.
struct Rounds {
    ProgressRecord record{1000};
    std::vector<int> counts{};

    /// `steps`: what its ranks show, one after the other.
    Rounds& add(
        const std::vector<std::vector<Step>>& steps,
        const Cause& cause = failed(),
        Duration ran_for = 10s) {
        Ranks before;
        for (const auto& now : steps) {
            record.on_progress(before, at(now));
            before = at(now);
        }
        record.end_round(ran_for, cause);
        counts.push_back(record.count());
        return *this;
    }
};

/// One round of a job whose ranks are all at the same step.
struct Life {
    bool is_failure;
    std::uint64_t step;
};

/// After which round the rule ends a job: as the page has it, over all rounds at once.
std::optional<std::size_t> ends_after(const std::vector<Life>& lives, int limit) {
    int count = 0;
    for (std::size_t i = 0; i < lives.size(); ++i) {
        const auto here = lives.begin() + static_cast<std::ptrdiff_t>(i);
        const bool is_new = std::none_of(lives.begin(), here, [&](const Life& earlier) {
            return earlier.step >= lives[i].step;
        });
        if (is_new)
            count = 0;
        else if (lives[i].is_failure)
            ++count;
        if (count >= limit) return i;
    }
    return std::nullopt;
}

void report(Story& job, const std::string& node, std::uint64_t step, int round) {
    job.show_progress(node, round, {{0, {step, WorkPhase::none}}});
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

TEST_CASE("a failed round counts unless a rank did a step that no earlier round had") {
    CHECK(
        Rounds{}
            .add({{10, 9}})
            .add({{10, 9}})
            .add({{9, 10}})
            .add({{11, 1}})
            .add({{11, 11}})
            .counts == std::vector{0, 1, 2, 0, 1});
}

TEST_CASE("a rank that reports one step and no more does not hold the others back") {
    CHECK(Rounds{}.add({{100, 0}}).add({{200, 0}}).add({{300, 0}}).counts == std::vector{0, 0, 0});
}

TEST_CASE("a counter that goes back within a round is at the end of an epoch") {
    Rounds job;
    job.add({{50, 50}, {99, 99}, {0, 0}, {5, 5}});
    job.add({{6, 6}, {99, 99}, {0, 0}, {5, 5}});
    CHECK(job.counts == std::vector{0, 0});
    // It fails before the end of one.
    CHECK(job.add({{6, 6}, {50, 50}}).add({{6, 6}, {50, 50}}).counts == std::vector{0, 0, 1, 2});
}

TEST_CASE("rounds that end otherwise do not count, and end the count where they had a new step") {
    Rounds job;
    job.add({{100, 100}}).add({{100, 100}});
    job.add({{100, 100}}, other(Cause::Kind::node_lost));
    job.add({{100, 100}}, other(Cause::Kind::store_unreachable));
    CHECK(job.counts == std::vector{0, 1, 1, 1});
    job.add({{200, 200}}, other(Cause::Kind::node_left)).add({{150, 150}}).add({{200, 200}});
    CHECK(job.counts == std::vector{0, 1, 1, 1, 0, 1, 2});
}

TEST_CASE("a round that fails before its first step counts once any round has reported one") {
    CHECK(
        Rounds{}
            .add({{10, 10}}, other(Cause::Kind::late_node))
            .add({})
            .add({})
            .add({{11, 11}})
            .counts == std::vector{0, 1, 2, 0});
}

TEST_CASE("without any step short rounds that fail alike count, whatever numbers they name") {
    Rounds job;
    job.add({}, failed("port 29400 is in use")).add({}, failed("port 31234 is in use"), 59s);
    job.add({}, failed("out of memory")).add({}, failed("out of memory"));
    job.add({}, failed("out of memory", 3)).add({}, failed("out of memory", 3), 60s);
    CHECK(job.counts == std::vector{1, 2, 1, 2, 1, 0});
}

TEST_CASE("without a limit no round is the last") {
    ProgressRecord record{std::nullopt};
    for (int i = 0; i < 100; ++i) {
        CHECK_FALSE(record.is_last(1s, failed()));
        record.end_round(1s, failed());
    }
}

TEST_CASE("a thousand jobs with and without progress end where the rule says, and only there") {
    std::mt19937 random{17};
    const auto below = [&random](std::uint32_t bound) { return random() % bound; };
    int ended = 0;
    for (int i = 0; i < 1000; ++i) {
        const int limit = 2 + static_cast<int>(below(4));
        // Those that always do a new step are never ended.
        const bool is_healthy = i % 2 == 0;
        std::vector<Life> lives;
        std::uint64_t step = 0;
        for (int k = 0; k < 30; ++k) {
            step = is_healthy ? step + 1 + below(50) : below(40);
            lives.push_back({below(5) != 0, step});
        }
        ProgressRecord record{limit};
        std::optional<std::size_t> end;
        for (std::size_t k = 0; k < lives.size() && !end; ++k) {
            const auto cause = lives[k].is_failure ? failed() : other(Cause::Kind::node_lost);
            record.on_progress({}, at({lives[k].step, lives[k].step}));
            if (record.is_last(10s, cause)) end = k;
            record.end_round(10s, cause);
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
            "forming: restart 3 of 100, 1 of 2 failed rounds without a new step: rank 0 on a: "
            "exited with code 7") != lines.end());

    fail_at(job, 3, 11);

    CHECK(
        job.result("b") ==
        "result failed exit_code=87 worker_failed \"rank 0 on a: exited with code 7; no restart "
        "after 2 failed rounds without a new step (--stop-without-progress)\" host=a round=3");
}

TEST_CASE("a lost node does not count, and ends the count only where its round had a new step") {
    for (const auto step : {std::uint64_t{10}, std::uint64_t{11}}) {
        auto job = job_with(2);
        job.join("a");
        job.join("b");
        fail_at(job, 0, 10);
        fail_at(job, 1, 10);

        job.started("a b", 2);
        report(job, "a", step, 2);
        job.drop("b");
        job.pass(1s, "a");
        job.ready("a", 2);
        job.join("b2", speaks_version_2);
        REQUIRE(job.status().state == "running");

        job.started("a b2", 3);
        job.failed("a", 3);
        job.ready("a b2", 3);
        CHECK(job.status().state == (step == 10 ? "failed" : "running"));
    }
}
