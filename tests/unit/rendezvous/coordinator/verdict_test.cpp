// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/verdict.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;
using control::Cause;
using control::WorkerEnd;

namespace {

Cause cause(Cause::Kind kind, std::string reason, int signal = 0) {
    Cause cause;
    cause.kind = kind;
    cause.reason = std::move(reason);
    cause.signal = signal;
    return cause;
}

/// A worker's failure `after` the beginning.
NodeFailure failure(int rank, Duration after, WorkerEnd end, bool is_secondary = false) {
    const bool was_executed = end.kind != WorkerEnd::Kind::not_executed;
    NodeFailure failure{Instant{} + after, {}, rank};
    failure.cause = cause(
        was_executed ? Cause::Kind::worker_failed : Cause::Kind::not_executable,
        "rank " + std::to_string(rank));
    control::WorkerFailure worker;
    worker.rank = rank;
    worker.end = end;
    worker.is_secondary = is_secondary;
    failure.cause.worker = worker;
    return failure;
}

const WorkerEnd exit_1{WorkerEnd::Kind::exited, 1};

/// The facts about the end of a round, owned by the test.
struct Facts {
    std::optional<Cause> cancel;
    std::optional<Cause> departure;
    std::optional<Cause> left;
    std::vector<NodeFailure> failures;
    std::optional<Cause> stop_cause;
    std::vector<int> final_codes{2};
    bool has_staying = true;
    bool has_restarts_left = true;
    bool is_crash_loop = false;
    std::optional<ProgressRecord> progress;

    RoundEnd end() const {
        const auto pointer = [](const std::optional<Cause>& one) { return one ? &*one : nullptr; };
        RoundEnd end;
        end.cancel = pointer(cancel);
        end.departure = pointer(departure);
        end.left = pointer(left);
        end.has_staying = has_staying;
        end.failures = failures;
        end.stop_cause = pointer(stop_cause);
        end.has_restarts_left = has_restarts_left;
        end.final_codes = final_codes;
        end.max_losses = 10;
        end.is_crash_loop = is_crash_loop;
        end.progress = progress ? &*progress : nullptr;
        return end;
    }
};

/// "over failed 84: nodes were lost ...".
std::string text(const Verdict& verdict) {
    if (verdict.next == Verdict::Next::restart) return "restart: " + verdict.cause.reason;
    if (verdict.next == Verdict::Next::another_round)
        return "another round: " + verdict.cause.reason;
    const char* outcome = verdict.outcome == control::Outcome::cancelled ? "cancelled" : "failed";
    return std::string{"over "} + outcome + " " + std::to_string(verdict.exit_code) + ": " +
           verdict.cause.reason;
}

std::string judged(const Facts& facts) {
    return text(judge(facts.end()));
}

/// Every reason for the end of a round holds.
Facts everything() {
    Facts facts;
    facts.cancel = cause(Cause::Kind::cancelled, "interrupted", SIGINT);
    facts.failures = {
        failure(0, 2s, exit_1), failure(1, 3s, {WorkerEnd::Kind::not_executed, ENOENT})};
    facts.left = cause(Cause::Kind::node_left, "b leaves", SIGTERM);
    facts.has_staying = false;
    facts.departure = cause(Cause::Kind::node_lost, "c was lost");
    facts.stop_cause = cause(Cause::Kind::late_node, "restart to let in d");
    return facts;
}

}  // namespace

TEST_CASE("the first row of the table that applies decides how a round is judged") {
    auto facts = everything();
    CHECK(judged(facts) == "over cancelled 130: interrupted");

    facts.cancel.reset();
    CHECK(judged(facts) == "over failed 127: rank 1");

    facts.failures.pop_back();
    CHECK(judged(facts) == "over cancelled 143: every node left; first: b leaves");

    facts.has_staying = true;
    CHECK(judged(facts) == "another round: c was lost");

    facts.departure.reset();
    CHECK(judged(facts) == "restart: rank 0");

    facts.failures.clear();
    CHECK(judged(facts) == "another round: restart to let in d");
}

TEST_CASE("too many lost nodes are a crash loop, nodes that leave are not") {
    Facts facts;
    facts.is_crash_loop = true;
    facts.departure = cause(Cause::Kind::node_lost, "c was lost");
    CHECK(
        judged(facts) ==
        "over failed 84: nodes were lost in more than 10 rounds within an hour; last: c was lost");

    facts.departure = cause(Cause::Kind::node_left, "c leaves", SIGTERM);
    CHECK(judged(facts) == "another round: c leaves");
}

TEST_CASE("of several failures the earliest is judged, and secondary ones after all others") {
    Facts facts;
    facts.failures = {failure(0, 5s, exit_1), failure(1, 3s, exit_1), failure(2, 1s, exit_1, true)};
    CHECK(judged(facts) == "restart: rank 1");

    facts.failures = {failure(2, 1s, exit_1, true)};
    CHECK(judged(facts) == "restart: rank 2");
}

TEST_CASE(
    "without restarts left, or after a final exit code, the job ends with the worker's code") {
    Facts facts;
    facts.failures = {failure(0, 1s, exit_1)};
    facts.has_restarts_left = false;
    CHECK(judged(facts) == "over failed 1: rank 0");

    facts.failures = {failure(0, 1s, {WorkerEnd::Kind::killed, SIGSEGV})};
    CHECK(judged(facts) == "over failed 139: rank 0");

    facts.has_restarts_left = true;
    facts.final_codes = {139};
    CHECK(
        judged(facts) ==
        "over failed 139: rank 0; no restart after exit code 139 "
        "(--no-restart-on)");
}

TEST_CASE("one round too many without a new step ends the job, if nothing else does") {
    Facts facts;
    facts.failures = {failure(0, 1s, exit_1)};
    facts.progress.emplace(2);
    facts.progress->restore_step(5);
    CHECK(judged(facts) == "restart: rank 0");
    facts.progress->end_round(1s, facts.failures[0].cause);
    CHECK(
        judged(facts) ==
        "over failed 87: rank 0; no restart after 2 failed rounds without a new step "
        "(--stop-without-progress)");

    facts.departure = cause(Cause::Kind::node_lost, "c was lost");
    CHECK(judged(facts) == "another round: c was lost");

    facts.departure.reset();
    facts.failures[0].cause.kind = Cause::Kind::store_unreachable;
    CHECK(judged(facts) == "restart: rank 0");

    facts.failures[0].cause.kind = Cause::Kind::worker_failed;
    facts.has_restarts_left = false;
    CHECK(judged(facts) == "over failed 1: rank 0");
}

TEST_CASE("an exit code or signal that does not exist is an ordinary failure") {
    Facts facts;
    facts.has_restarts_left = false;
    for (const auto end :
         {WorkerEnd{WorkerEnd::Kind::exited, 0},
          WorkerEnd{WorkerEnd::Kind::exited, 256},
          WorkerEnd{WorkerEnd::Kind::killed, 0},
          WorkerEnd{WorkerEnd::Kind::killed, 128}}) {
        facts.failures = {failure(0, 1s, end)};
        CHECK(judge(facts.end()).exit_code == 1);
    }
    facts.failures = {failure(0, 1s, {WorkerEnd::Kind::not_executed, EACCES})};
    CHECK(judge(facts.end()).exit_code == 126);
}

TEST_CASE("too few nodes are 80 before the first round and 82 after one") {
    CHECK(
        text(judge(Shortage{nullptr, false, "1 of 2 nodes", "a", 600s})) ==
        "over failed 80: 1 of 2 nodes joined within 600 s (a)");

    auto last = failure(0, 1s, exit_1).cause;
    const auto verdict = judge(Shortage{&last, true, "1 of 2 nodes", "", 30s});
    CHECK(
        text(verdict) == "over failed 82: rank 0; no replacement came within 30 s (1 of 2 nodes)");
    CHECK(verdict.cause.kind == Cause::Kind::node_lost);
    CHECK_FALSE(verdict.cause.worker);
}

TEST_CASE("where no replacement is waited for, a signal that ends one node ends the job as such") {
    Cause last;
    last.kind = Cause::Kind::node_left;
    last.reason = "node b leaves";
    last.signal = SIGTERM;
    const auto verdict = [&](Duration waited) {
        return text(judge(Shortage{&last, true, "1 of 2 nodes", "", waited}));
    };
    CHECK(verdict(0s) == "over cancelled 143: node b leaves");
    CHECK(
        verdict(30s) ==
        "over failed 82: node b leaves; no replacement came within 30 s (1 of 2 nodes)");
    last.kind = Cause::Kind::node_lost;
    last.signal = 0;
    CHECK(
        verdict(0s) ==
        "over failed 82: node b leaves; no replacement is waited for (1 of 2 nodes)");
}
