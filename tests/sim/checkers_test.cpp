// SPDX-License-Identifier: Apache-2.0
// Each checker complains about each violation that it exists for. The tests feed it facts, so they
// do not depend on a seed.
#include "tests/sim/checkers/checkers.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>

using namespace ddprun;
using namespace ddprun::sim;

namespace {

/// One job of two nodes with a worker each, as facts for the checkers.
class Facts {
public:
    Facts() : checkers_(1, {2}) {}

    static WorkerStarted worker(const std::string& host, int rank, int round = 0) {
        WorkerStarted fact;
        fact.host = host;
        fact.run_id = "job";
        fact.incarnation = "life";
        fact.pid = 100 + round;
        fact.assignment.round = round;
        fact.assignment.group_rank = rank;
        fact.assignment.group_world_size = 2;
        fact.assignment.rank_base = rank;
        fact.assignment.world_size = 2;
        fact.assignment.master_addr = "a";
        fact.assignment.master_port = static_cast<std::uint16_t>(20'000 + round);
        return fact;
    }

    static ResultSeen result(const std::string& host, control::Outcome outcome, int exit_code = 0) {
        return {host, "job", "life", {outcome, std::nullopt, exit_code}};
    }

    static ResultSeen failed(int round, int exit_code) {
        auto fact = result("a", control::Outcome::failed, exit_code);
        fact.result.root_cause.emplace();
        fact.result.root_cause->kind = control::Cause::Kind::worker_failed;
        fact.result.root_cause->round = round;
        return fact;
    }

    /// Round 0 runs on a and b.
    Facts& running() {
        checkers_.on_worker_started(worker("a", 0));
        checkers_.on_worker_started(worker("b", 1));
        return *this;
    }

    Checkers* operator->() { return &checkers_; }

    bool is_fine() const { return checkers_.complaints().empty(); }
    /// Whether the only complaint is about the last fact.
    bool finds(const std::string& words) const {
        const auto& all = checkers_.complaints();
        return all.size() == 1 && all.front().find(words) != std::string::npos;
    }

private:
    Checkers checkers_;
};

}  // namespace

TEST_CASE("two rounds and a success are no complaint") {
    Facts facts;
    facts.running();
    facts->on_round_failed({"job", "life", 0});
    facts->on_worker_ended("a", 100);
    facts->on_worker_ended("b", 100);
    for (auto next : {Facts::worker("a", 0, 1), Facts::worker("b", 1, 1)}) {
        next.assignment.restart_count = 1;
        facts->on_worker_started(next);
    }
    facts->on_worker_ended("a", 101);
    facts->on_worker_ended("b", 101);
    for (const std::string host : {"a", "b"}) {
        facts->on_result(Facts::result(host, control::Outcome::succeeded));
        facts->on_exit(host, 0);
    }
    CHECK(facts.is_fine());
    CHECK(facts->living_worker_count() == 0);
}

TEST_CASE("ranks: one that is given twice, one that is none, two worlds, two hosts in one place") {
    {
        Facts facts;
        facts.running();
        auto second = Facts::worker("c", 1);
        second.assignment.group_rank = 2;
        facts->on_worker_started(second);
        CHECK(facts.finds("rank 1 on b and on c"));
    }
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 2));
        CHECK(facts.finds("rank 2 is none"));
    }
    {
        Checkers units_of_four{1, {2}, 4};
        units_of_four.on_worker_started(Facts::worker("a", 0));
        CHECK(units_of_four.complaints() == Complaints{"round 0: 2 nodes, and the unit is 4"});
    }
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 0));
        auto other = Facts::worker("b", 1);
        other.assignment.master_port = 1;
        facts->on_worker_started(other);
        CHECK(facts.finds("b got another world than the others"));
        // The name of the lost job again.
        facts->on_daemon_replaced(other.at, std::chrono::seconds{30});
        for (const std::string host : {"a", "b"}) {
            auto next = Facts::worker(host, host == "a" ? 0 : 1);
            next.assignment.master_port = 2;
            facts->on_worker_started(next);
        }
        CHECK(facts.finds("b got another world than the others"));
    }
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 0));
        auto other = Facts::worker("b", 1);
        other.assignment.group_rank = 0;
        facts->on_worker_started(other);
        CHECK(facts.finds("group rank 0 on two hosts"));
    }
}

TEST_CASE("ranks: a store with one worker too many, and a complete one whose worker still waits") {
    const auto world = Facts::worker("a", 0).assignment;
    {
        Facts facts;
        facts->on_arrived("life", world, 2);
        CHECK(facts.is_fine());
        facts->on_arrived("life", world, 3);
        CHECK(facts.finds("3 workers in the store of a world of 2"));
    }
    {
        Facts facts;
        facts->on_waited_in_vain("a", "life", world);
        CHECK(facts.is_fine());
        facts->on_arrived("life", world, 2);
        facts->on_waited_in_vain("a", "life", world);
        CHECK(facts.finds("still waits although all have arrived"));
    }
}

TEST_CASE("rounds: a number that goes back, two that live at once, and no end after a success") {
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 0, 1));
        facts->on_worker_ended("a", 101);
        facts->on_worker_started(Facts::worker("b", 1, 0));
        CHECK(facts.finds("b starts round 0 after round 1"));
    }
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 0));
        facts->on_worker_started(Facts::worker("b", 1, 1));
        CHECK(facts.finds("b starts round 1 while a has a worker of round 0"));
    }
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 0));
        auto other = Facts::worker("b", 0);
        other.incarnation = "another life";
        facts->on_worker_started(other);
        CHECK(facts.finds("b starts round 0 while a has a worker of round 0"));
    }
    {
        constexpr Duration lease = std::chrono::seconds{30};
        Facts facts;
        auto other = Facts::worker("b", 0);
        facts->on_worker_started(Facts::worker("a", 0));
        facts->on_daemon_replaced(other.at, lease);
        other.incarnation = "another life";
        other.at += lease - std::chrono::milliseconds{1};
        facts->on_worker_started(other);
        CHECK(facts.is_fine());
        other.host = "c";
        other.assignment.group_rank = other.assignment.rank_base = 1;
        other.at += std::chrono::milliseconds{1};
        facts->on_worker_started(other);
        CHECK(facts.finds("c starts round 0 while a has a worker of round 0"));
    }
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 0));
        facts->on_worker_stuck("a", 100);
        facts->on_worker_started(Facts::worker("b", 1, 1));
        CHECK(facts.is_fine());
    }
    {
        Facts facts;
        facts->on_worker_started(Facts::worker("a", 0));
        facts->on_host_asleep("a");
        facts->on_worker_started(Facts::worker("b", 1, 1));
        CHECK(facts.is_fine());
        facts->on_host_awake("a");
        CHECK(facts.finds("a wakes up and goes on in round 0 while there is a round 1"));
    }
    {
        Facts facts;
        facts.running();
        facts->on_worker_ended("a", 100);
        facts->on_result(Facts::result("a", control::Outcome::succeeded));
        CHECK(facts.finds("got a success while a worker on b is not done"));
    }
}

TEST_CASE(
    "budget: a restart too many, one without a failure, and a failed job with restarts left") {
    {
        Facts facts;
        facts->on_round_failed({"job", "life", 0});
        facts->on_round_failed({"job", "life", 1});
        auto third = Facts::worker("a", 0, 2);
        third.assignment.restart_count = 2;
        facts->on_worker_started(third);
        CHECK(facts.finds("restart 2 of 1"));
    }
    {
        Facts facts;
        auto next = Facts::worker("a", 0, 1);
        next.assignment.restart_count = 1;
        facts->on_worker_started(next);
        CHECK(facts.finds("restart 1 in round 1 after 0 rounds with a failure"));
    }
    {
        Facts facts;
        facts->on_round_failed({"job", "life", 0});
        facts->on_result(Facts::failed(0, 1));
        CHECK(facts.finds("failed after 1 rounds with a failure and 1 allowed restarts"));
    }
    {
        Facts facts;
        facts->on_result(Facts::failed(0, 2));
        CHECK(facts.is_fine());
    }
}

TEST_CASE("outcomes: two ends of one job, another exit code, the end of a job one was never in") {
    {
        Facts facts;
        facts->on_result(Facts::result("a", control::Outcome::succeeded));
        facts->on_result(Facts::result("b", control::Outcome::cancelled));
        CHECK(facts.finds("b got another result than the others"));
    }
    for (const std::string text : {"", "KeyError: y"}) {
        Facts facts;
        auto member = Facts::failed(0, 2);
        member.result.root_cause->worker = control::WorkerFailure{};
        auto other = member;
        member.result.root_cause->worker->message = "ValueError: x";
        other.host = "b";
        other.result.root_cause->worker->message = text;
        facts->on_result(member);
        facts->on_result(other);
        // A node that is no longer a member gets no text.
        CHECK(facts.finds("b got another result than the others") == !text.empty());
    }
    {
        Facts facts;
        facts->on_result(Facts::result("a", control::Outcome::succeeded));
        facts->on_exit("a", 1);
        CHECK(facts.finds("a ends with exit code 1, and the result said 0"));
    }
    {
        Facts facts;
        auto unread = Facts::result("a", control::Outcome::succeeded);
        unread.is_read = false;
        facts->on_result(unread);
        facts->on_exit("a", 1);
        CHECK(facts.is_fine());
    }
    {
        Facts facts;
        auto stray = Facts::result("a", control::Outcome::succeeded);
        stray.incarnation.clear();
        facts->on_result(stray);
        CHECK(facts.finds("the result of a job that it was never in"));
    }
}

TEST_CASE("isolation: a round, a store and a result of another job") {
    {
        Facts facts;
        facts.running();
        auto other = Facts::worker("c", 0);
        other.run_id = "other";
        other.assignment.rank_base = 2;
        other.assignment.world_size = 2;
        facts->on_worker_started(other);
        const auto& all = facts->complaints();
        CHECK(all.size() >= 2);
        CHECK(all.back().find("c of job other uses a store of job job") != std::string::npos);
        CHECK(all[all.size() - 2] == "c of job other is in a round of job job");
    }
    {
        Facts facts;
        facts.running();
        auto stray = Facts::result("c", control::Outcome::cancelled);
        stray.run_id = "other";
        facts->on_result(stray);
        CHECK(facts.finds("c of job other got the result of job job"));
    }
}

TEST_CASE("leaders: an epoch twice, an act without the key, an act after a newer leader's") {
    {
        Facts facts;
        facts->on_elected({"a", "job", 1});
        facts->on_elected({"b", "job", 2});
        facts->on_act({"b", "job", 2, 2, 0, "welcome"});
        // Another job of this id: the keys were erased.
        facts->on_elected({"c", "job", 1, 1});
        facts->on_act({"c", "job", 1, 1, 1, "welcome"});
        CHECK(facts.is_fine());
    }
    {
        Facts facts;
        facts->on_elected({"a", "job", 1});
        facts->on_elected({"b", "job", 1});
        CHECK(facts.finds("b leads in epoch 1 as a has"));
    }
    {
        Facts facts;
        facts->on_act({"a", "job", 1, 0, 0, "heartbeat_ack"});
        CHECK(facts.finds(
            "a acts in epoch 1 (heartbeat_ack) while the leader's record is of epoch 0"));
    }
    {
        Facts facts;
        facts->on_act({"b", "job", 2, 2, 0, "welcome"});
        facts->on_act({"a", "job", 1, 1, 0, "welcome"});
        CHECK(facts.finds("a acts in epoch 1 (welcome) after one of epoch 2"));
    }
    {
        Facts facts;
        facts->on_act({"b", "job", 2, 2, 0, "welcome", "a"});
        CHECK(facts.finds("b acts in epoch 2 (welcome) while the server of a may act"));
    }
}

TEST_CASE(
    "votes: two values of one ballot, two records, numbers that go back, two leaders of one "
    "epoch") {
    const auto process = [](std::uint8_t number) { return Nonce{{number}}; };
    voters::JobRecord first;
    first.lineage = process(9);
    first.leader = voters::Leader{"a", "a:1", process(1)};
    first.epoch = 2;
    first.voters = {4, {{"a:1", process(1)}, {"b:1", process(2)}, {"c:1", process(3)}}, {}};
    const auto by =
        [&](std::uint8_t voter, std::uint64_t counter, const voters::JobRecord& record) {
            return AcceptSeen{"job", process(voter), {counter, process(1)}, record, {}};
        };
    Facts facts;
    facts->on_accepted(by(1, 1, first));
    facts->on_accepted(by(2, 1, first));
    CHECK(facts.is_fine());
    // Two of three voters accept it.
    const auto chosen_next = [&](const voters::JobRecord& next) {
        Facts others = facts;
        others->on_accepted(by(1, 2, next));
        CHECK(others.is_fine());
        others->on_accepted(by(3, 2, next));
        return others;
    };
    {
        auto next = first;
        next.counter = 2;
        CHECK(chosen_next(next).is_fine());
        Facts others = facts;
        others->on_accepted(by(3, 1, next));
        CHECK(others.finds("two records of job job have one ballot"));
    }
    {
        auto next = first;
        next.lineage = process(8);
        CHECK(chosen_next(next).finds("a job has two records"));
    }
    {
        auto next = first;
        next.epoch = 1;
        CHECK(chosen_next(next).finds("epoch 1 and voters 4 is chosen after one of epoch 2"));
    }
    {
        auto next = first;
        next.voters.version = 3;
        CHECK(chosen_next(next).finds("epoch 2 and voters 3 is chosen after one of epoch 2"));
    }
    {
        auto next = first;
        next.leader->nonce = process(2);
        CHECK(chosen_next(next).finds("epoch 2 has two leaders in the record"));
    }
    {
        auto without = first;
        without.leader.reset();
        auto others = chosen_next(without);
        CHECK(others.is_fine());
        others->on_accepted(by(1, 3, first));
        others->on_accepted(by(2, 3, first));
        CHECK(others.finds("epoch 2 has two leaders in the record"));
    }
}

TEST_CASE("endings: a job goes on after its end, a member runs another instead") {
    {
        Facts facts;
        facts->expect_election();
        facts.running();
        facts->on_worker_ended("a", 100);
        facts->on_worker_ended("b", 100);
        facts->on_result(Facts::result("a", control::Outcome::cancelled));
        facts->on_worker_started(Facts::worker("b", 1, 1));
        CHECK(facts.finds("b starts round 1 of a job that has ended"));
    }
    for (const bool was_lost_then : {false, true}) {
        Facts facts;
        facts->expect_election();
        facts.running();
        facts->on_worker_ended("a", 100);
        facts->on_worker_ended("b", 100);
        // The node was lost before the end, so it begins another job.
        if (!was_lost_then) facts->on_lost({"b", "life"});
        facts->on_result(Facts::result("a", control::Outcome::cancelled));
        if (was_lost_then) facts->on_lost({"b", "life"});
        auto other = Facts::worker("b", 0, 7);
        other.incarnation = "next";
        facts->on_worker_started(other);
        CHECK(facts.is_fine() == !was_lost_then);
    }
}

TEST_CASE("a signal to a worker while only the leader changes") {
    Facts facts;
    facts->on_worker_signalled("a.0");
    CHECK(facts.is_fine());
    facts->expect_no_signal(true);
    facts->on_worker_signalled("a.0");
    CHECK(facts.finds("a.0 is signalled although only the leader has changed"));
}

TEST_CASE("a result with more time in its phases than has passed") {
    Facts facts;
    auto fact = Facts::result("a", control::Outcome::succeeded);
    fact.at = Instant{std::chrono::seconds{10}};
    fact.result.goodput.emplace();
    (*fact.result.goodput)[control::GoodputPhase::unmeasured] = std::chrono::seconds{10};
    facts->on_result(fact);
    CHECK(facts.is_fine());
    (*fact.result.goodput)[control::GoodputPhase::down] = std::chrono::seconds{1};
    Facts others;
    others->on_result(fact);
    CHECK(others.finds("a got a result with phases of 11.000000 s after 10.000000 s"));
}
