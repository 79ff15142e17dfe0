// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

/// Nodes a and b with a rank each; a serves the store.
Story two_nodes(int restarts = 3) {
    Story job{"2", restarts, [](control::Join& join) { join.nproc = 1; }};
    job.run("a b");
    job.output();
    return job;
}

control::StoreWait a_wait(Duration age, std::vector<std::string> sockets = {"10.0.0.1:5"}) {
    const auto count = sockets.size();
    return {0, "pg/0", 0, age, false, count, std::move(sockets)};
}

control::StoreWait a_timeout(Duration age, std::vector<std::string> sockets = {"10.0.0.1:5"}) {
    auto wait = a_wait(age, std::move(sockets));
    wait.has_timed_out = true;
    return wait;
}

void report(Story& job, const std::string& node, control::StoreWait wait) {
    job.say(node, control::Heartbeat{0, std::move(wait)});
}

void answer(Story& job, const std::string& node, control::StoreClients clients) {
    job.say(node, control::Heartbeat{0, std::nullopt, std::move(clients)});
}

/// Rank 0 waits at a, rank 1 of b has no connection.
void answer_both(Story& job) {
    answer(job, "a", {0, {{0, "10.0.0.1:5"}}, {}, {}});
    answer(job, "b", {0, {}, {0}, {}});
}

const std::string b_is_missing = "rank 1 (b) is not connected";

std::string why_of(const Story& job) {
    const auto& cause = job.whole_result("a").root_cause;
    REQUIRE(cause);
    REQUIRE(cause->worker);
    return cause->worker->why;
}

}  // namespace

TEST_CASE("a long wait is logged once, when every member has named its connections") {
    auto job = two_nodes();

    report(job, "a", a_wait(30s));
    CHECK(job.output() == Lines{"b heartbeat_ack 0 clients_of=0"});
    answer(job, "b", {0, {}, {0}, {}});
    CHECK(job.output() == Lines{});
    answer(job, "a", {0, {{0, "10.0.0.1:5"}}, {}, {}});
    CHECK(
        job.output() ==
        Lines{"job job round 0 ranks 0 wait for \"pg/0\" since 30 s: " + b_is_missing});

    // It goes on: asked again, logged no more.
    job.pass(30s, "a b");
    report(job, "a", a_wait(60s));
    answer_both(job);
    CHECK(job.output() == Lines{"b heartbeat_ack 0 clients_of=0"});
}

TEST_CASE("a member that does not answer is not waited for beyond the next report") {
    auto job = two_nodes();
    report(job, "a", a_wait(30s));
    answer(job, "a", {0, {{0, "10.0.0.1:5"}}, {}, {}});
    job.output();

    job.pass(30s, "a b");
    report(job, "a", a_wait(60s));

    CHECK(
        job.output().front() ==
        "job job round 0 ranks 0 wait for \"pg/0\" since 60 s: rank 1 (b) is not known");
}

TEST_CASE("the status page has the longest wait while it lasts") {
    auto job = two_nodes();
    CHECK_FALSE(job.status().store_wait);
    report(job, "a", a_wait(30s));
    answer_both(job);
    job.pass(2s, "a b");

    const auto shown = job.status().store_wait;
    REQUIRE(shown);
    CHECK(shown->key == "pg/0");
    CHECK(shown->since_s == doctest::Approx(32));
    CHECK(shown->ranks == "0");
    CHECK(shown->missing == b_is_missing);

    SUBCASE("the store reports its end") {
        report(job, "a", {});
    }
    SUBCASE("no report follows") {
        job.pass(2 * limits::wait_report_interval, "a b");
    }
    SUBCASE("the round ends") {
        job.failed("a");
    }
    CHECK_FALSE(job.status().store_wait);
}

TEST_CASE("what was reported of connections before the wait does not count") {
    auto job = two_nodes();
    report(job, "a", a_wait(30s));
    answer_both(job);
    job.pass(30s, "a b");

    report(job, "a", a_wait(60s));

    CHECK(job.status().store_wait->ranks == "1 client");
    CHECK(job.status().store_wait->missing == "ranks 0 (a), 1 (b) are not known");
}

TEST_CASE("reports of other rounds, and of a node that serves no store, are stale") {
    auto job = two_nodes();
    const auto stale = job.coordinator().stale_count();
    report(job, "b", a_wait(30s));
    auto old = a_wait(30s);
    old.round = 7;
    report(job, "a", old);
    answer(job, "b", {7, {}, {0}, {}});

    CHECK(job.output() == Lines{});
    CHECK(job.coordinator().stale_count() == stale + 3);
    CHECK_FALSE(job.status().store_wait);
}

TEST_CASE("a failure after a wait that timed out names the rank that is missing") {
    auto job = two_nodes(0);
    report(job, "a", a_timeout(12'345ms));
    answer_both(job);
    job.output();
    job.pass(1s, "a b");

    job.failed("a");
    job.ready("a b");

    CHECK(
        why_of(job) ==
        "a wait of 12.3 s for the key pg/0 in the store timed out (rank 0); " + b_is_missing);
}

TEST_CASE("a failure that has another reason is not explained by a wait") {
    auto job = two_nodes(0);
    const auto answered = [&] { answer_both(job); };
    SUBCASE("the wait goes on") {
        report(job, "a", a_wait(60s));
        answered();
        job.failed("a");
    }
    SUBCASE("the rank did not wait") {
        report(job, "a", a_timeout(60s));
        answered();
        job.failed("b");
    }
    SUBCASE("it timed out long before") {
        report(job, "a", a_timeout(60s));
        answered();
        job.pass(limits::timed_out_wait_window + 1s, "a b");
        job.failed("a");
    }
    SUBCASE("the host knows the reason") {
        report(job, "a", a_timeout(60s));
        answered();
        job.failed_with(
            "a", 0, 0s, [](control::WorkerFailure& failure) { failure.why = "out of memory"; });
        job.ready("a b");
        CHECK(why_of(job) == "out of memory");
        return;
    }
    job.ready("a b");
    CHECK(why_of(job).empty());
}

TEST_CASE("answers that come while the round is being stopped are in time") {
    auto job = two_nodes(0);
    report(job, "a", a_timeout(5s));
    job.failed("a");
    answer_both(job);
    job.ready("a b");

    CHECK(
        why_of(job) ==
        "a wait of 5 s for the key pg/0 in the store timed out (rank 0); " + b_is_missing);
}

TEST_CASE("a rank whose process was gone when it was looked at may be the one that waited") {
    auto job = two_nodes(0);
    report(job, "a", a_timeout(5s));
    answer(job, "a", {0, {}, {}, {}});
    answer(job, "b", {0, {}, {0}, {}});

    job.failed("a");
    job.ready("a b");

    CHECK(
        why_of(job) == "a wait of 5 s for the key pg/0 in the store timed out; " + b_is_missing +
                           "; rank 0 (a) is not known");
}

TEST_CASE("a new round begins without the waits of the one before it") {
    auto job = two_nodes();
    report(job, "a", a_wait(30s));
    answer_both(job);
    report(job, "a", a_timeout(31s));
    job.failed("b");
    job.ready("a b");
    job.started("a b", 1);
    job.output();

    CHECK_FALSE(job.status().store_wait);
    auto again = a_wait(30s);
    again.round = 1;
    report(job, "a", again);
    answer(job, "a", {1, {{0, "10.0.0.1:5"}}, {}, {}});
    answer(job, "b", {1, {}, {0}, {}});
    CHECK(
        job.output().back() ==
        "job job round 1 ranks 0 wait for \"pg/0\" since 30 s: " + b_is_missing);
}
