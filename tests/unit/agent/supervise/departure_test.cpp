// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/departure.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <vector>

namespace ddprun::agent {
namespace {

using Step = Departure::Step;

TEST_CASE(
    "what a node does after the end of its part depends on what it hosts and how that was chosen") {
    struct Case {
        bool is_elected;
        bool was_server_idle;
        bool is_hosting;
        bool is_job_over;
        Step expected;
    };
    const std::vector<Case> cases{
        {false, false, false, true, Step::leave},
        {false, false, false, false, Step::leave},
        {false, false, true, true, Step::wait_for_nodes},
        {false, false, true, false, Step::wait_for_nodes},
        {false, true, true, true, Step::leave},
        {true, false, false, true, Step::release_server},
        {true, false, true, false, Step::release_server},
        {true, false, true, true, Step::wait_for_nodes},
        // The idle time may be at the end of an earlier leadership.
        {true, true, true, true, Step::wait_for_nodes},
    };
    for (const auto& c : cases) {
        CAPTURE(c.is_elected);
        CAPTURE(c.was_server_idle);
        CAPTURE(c.is_hosting);
        CAPTURE(c.is_job_over);
        Departure departure(c.is_elected);
        if (c.was_server_idle) CHECK(departure.server_idle() == Step::none);
        CHECK_FALSE(departure.is_finished());
        CHECK(departure.finished({c.is_hosting, c.is_job_over}) == c.expected);
        CHECK(departure.is_finished());
    }
}

TEST_CASE(
    "a server that has no agent any more, or waited long enough, ends the wait for nodes once") {
    for (const bool is_elected : {false, true}) {
        CAPTURE(is_elected);
        const auto last = is_elected ? Step::release_server : Step::leave;
        Departure by_agents(is_elected);
        by_agents.finished({true, true});
        CHECK(by_agents.server_idle() == last);
        CHECK(by_agents.waited() == Step::none);
        Departure by_time(is_elected);
        by_time.finished({true, true});
        CHECK(by_time.waited() == last);
        CHECK(by_time.server_idle() == Step::none);
    }
}

TEST_CASE("a node that votes waits for its release if the job is over, unless it leads") {
    const auto first_step = [](const Departure::Facts& facts) {
        return Departure(true).finished(facts);
    };
    CHECK(first_step({false, true, true}) == Step::wait_for_release);
    CHECK(first_step({false, false, true}) == Step::release_server);
    CHECK(first_step({true, true, true}) == Step::wait_for_nodes);

    Departure by_record(true);
    CHECK(by_record.released() == Step::none);
    by_record.finished({false, true, true});
    CHECK(by_record.is_finished());
    CHECK(by_record.waits_for_release());
    // That of an earlier leadership.
    CHECK(by_record.server_idle() == Step::none);
    CHECK(by_record.released() == Step::release_server);
    CHECK(by_record.released() == Step::none);
    CHECK_FALSE(by_record.waits_for_release());

    Departure by_time(true);
    by_time.finished({false, true, true});
    CHECK(by_time.waited() == Step::release_server);
    CHECK(by_time.released() == Step::none);
}

TEST_CASE("a server that was elected after the end waits for nodes that have not found it yet") {
    Departure voter(true);
    CHECK(voter.elected() == Step::none);
    voter.finished({false, true, true});
    CHECK(voter.elected() == Step::wait_for_nodes);
    CHECK(voter.server_idle() == Step::none);
    CHECK(voter.released() == Step::none);
    CHECK(voter.waited() == Step::release_server);

    Departure without_result(true);
    CHECK(without_result.finished({true, true, true, true}) == Step::wait_for_nodes);
    CHECK(without_result.server_idle() == Step::none);
    CHECK(without_result.waited() == Step::release_server);
}

TEST_CASE("a signal ends the wait for a release at once; only SIGINT ends the wait for nodes") {
    for (const int signal : {SIGINT, SIGTERM}) {
        CAPTURE(signal);
        Departure voter(true);
        CHECK(voter.signalled(signal) == Step::none);
        voter.finished({false, true, true});
        CHECK(voter.signalled(signal) == Step::leave);
        Departure leader(true);
        leader.finished({true, true, true});
        CHECK(leader.signalled(signal) == (signal == SIGINT ? Step::leave : Step::none));
    }
}

}  // namespace
}  // namespace ddprun::agent
