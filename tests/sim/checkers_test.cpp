// SPDX-License-Identifier: Apache-2.0
// Each checker complains of each thing that it is there for: told of it, and not by luck of a seed.
#include "tests/sim/checkers/checkers.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace ddprun;
using namespace ddprun::sim;

namespace {

/// One job of two nodes with a worker each, as the checkers are told of it.
class Told {
public:
    Told() : checkers_(1, {2}) {}

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

    static ResultTold result(const std::string& host, control::Outcome outcome, int exit_code = 0) {
        return {host, "job", "life", {outcome, std::nullopt, exit_code}};
    }

    static ResultTold gave_up(int round, int exit_code) {
        auto fact = result("a", control::Outcome::failed, exit_code);
        fact.result.first_cause.emplace();
        fact.result.first_cause->kind = control::Cause::Kind::worker_failed;
        fact.result.first_cause->round = round;
        return fact;
    }

    /// Round 0 runs on a and b.
    Told& running() {
        checkers_.on_worker_started(worker("a", 0));
        checkers_.on_worker_started(worker("b", 1));
        return *this;
    }

    Checkers* operator->() { return &checkers_; }

    bool is_fine() const { return checkers_.complaints().empty(); }
    /// Nothing before the last fact, and that one is what is complained of.
    bool hears(const std::string& words) const {
        const auto& all = checkers_.complaints();
        return all.size() == 1 && all.front().find(words) != std::string::npos;
    }

private:
    Checkers checkers_;
};

}  // namespace

TEST_CASE("two rounds and a success are nothing to complain of") {
    Told told;
    told.running();
    told->on_round_failed({"job", "life", 0});
    told->on_worker_ended("a", 100);
    told->on_worker_ended("b", 100);
    for (auto next : {Told::worker("a", 0, 1), Told::worker("b", 1, 1)}) {
        next.assignment.restart_count = 1;
        told->on_worker_started(next);
    }
    told->on_worker_ended("a", 101);
    told->on_worker_ended("b", 101);
    for (const std::string host : {"a", "b"}) {
        told->on_result(Told::result(host, control::Outcome::succeeded));
        told->on_exit(host, 0);
    }
    CHECK(told.is_fine());
    CHECK(told->living_worker_count() == 0);
}

TEST_CASE("ranks: one that is given twice, one that is none, two worlds, two hosts in one place") {
    {
        Told told;
        told.running();
        auto second = Told::worker("c", 1);
        second.assignment.group_rank = 2;
        told->on_worker_started(second);
        CHECK(told.hears("rank 1 on b and on c"));
    }
    {
        Told told;
        told->on_worker_started(Told::worker("a", 2));
        CHECK(told.hears("rank 2 is none"));
    }
    {
        Told told;
        told->on_worker_started(Told::worker("a", 0));
        auto other = Told::worker("b", 1);
        other.assignment.master_port = 1;
        told->on_worker_started(other);
        CHECK(told.hears("b was told of another world than the others"));
    }
    {
        Told told;
        told->on_worker_started(Told::worker("a", 0));
        auto other = Told::worker("b", 1);
        other.assignment.group_rank = 0;
        told->on_worker_started(other);
        CHECK(told.hears("group rank 0 on two hosts"));
    }
}

TEST_CASE("ranks: a store with one worker too many, and one that nobody is told is complete") {
    const auto world = Told::worker("a", 0).assignment;
    {
        Told told;
        told->on_arrived("life", world, 2);
        CHECK(told.is_fine());
        told->on_arrived("life", world, 3);
        CHECK(told.hears("3 workers in the store of a world of 2"));
    }
    {
        Told told;
        told->on_waited_in_vain("a", "life", world);
        CHECK(told.is_fine());
        told->on_arrived("life", world, 2);
        told->on_waited_in_vain("a", "life", world);
        CHECK(told.hears("is not told that everybody has arrived"));
    }
}

TEST_CASE("rounds: a number that goes back, two that live at once, and no end after a success") {
    {
        Told told;
        told->on_worker_started(Told::worker("a", 0, 1));
        told->on_worker_ended("a", 101);
        told->on_worker_started(Told::worker("b", 1, 0));
        CHECK(told.hears("b starts round 0 after round 1"));
    }
    {
        Told told;
        told->on_worker_started(Told::worker("a", 0));
        told->on_worker_started(Told::worker("b", 1, 1));
        CHECK(told.hears("b starts round 1 while a has a worker of round 0"));
    }
    {
        Told told;
        told->on_worker_started(Told::worker("a", 0));
        told->on_worker_stuck("a", 100);
        told->on_worker_started(Told::worker("b", 1, 1));
        CHECK(told.is_fine());
    }
    {
        Told told;
        told->on_worker_started(Told::worker("a", 0));
        told->on_host_asleep("a");
        told->on_worker_started(Told::worker("b", 1, 1));
        CHECK(told.is_fine());
        told->on_host_awake("a");
        CHECK(told.hears("a wakes up and goes on in round 0 while there is a round 1"));
    }
    {
        Told told;
        told.running();
        told->on_worker_ended("a", 100);
        told->on_result(Told::result("a", control::Outcome::succeeded));
        CHECK(told.hears("told of a success while a worker on b is not done"));
    }
}

TEST_CASE("budget: a restart too many, one for nothing, and giving up too early") {
    {
        Told told;
        told->on_round_failed({"job", "life", 0});
        told->on_round_failed({"job", "life", 1});
        auto third = Told::worker("a", 0, 2);
        third.assignment.restart_count = 2;
        told->on_worker_started(third);
        CHECK(told.hears("restart 2 of 1"));
    }
    {
        Told told;
        auto next = Told::worker("a", 0, 1);
        next.assignment.restart_count = 1;
        told->on_worker_started(next);
        CHECK(told.hears("restart 1 in round 1 after 0 rounds with a failure"));
    }
    {
        Told told;
        told->on_round_failed({"job", "life", 0});
        told->on_result(Told::gave_up(0, 1));
        CHECK(told.hears("failed after 1 rounds with a failure and 1 allowed restarts"));
    }
    {
        Told told;
        told->on_result(Told::gave_up(0, 2));
        CHECK(told.is_fine());
    }
}

TEST_CASE("outcomes: two ends of one job, another exit code, the end of a job one was never in") {
    {
        Told told;
        told->on_result(Told::result("a", control::Outcome::succeeded));
        told->on_result(Told::result("b", control::Outcome::cancelled));
        CHECK(told.hears("b was told of another end than the others"));
    }
    {
        Told told;
        told->on_result(Told::result("a", control::Outcome::succeeded));
        told->on_exit("a", 1);
        CHECK(told.hears("a ends with exit code 1, and was told 0"));
    }
    {
        Told told;
        auto stray = Told::result("a", control::Outcome::succeeded);
        stray.incarnation.clear();
        told->on_result(stray);
        CHECK(told.hears("the end of a job that it was never in"));
    }
}

TEST_CASE("strangers: a round, a store and a result of another job") {
    {
        Told told;
        told.running();
        auto stranger = Told::worker("c", 0);
        stranger.run_id = "other";
        stranger.assignment.rank_base = 2;
        stranger.assignment.world_size = 2;
        told->on_worker_started(stranger);
        const auto& all = told->complaints();
        CHECK(all.size() >= 2);
        CHECK(all.back().find("c of job other uses a store of job job") != std::string::npos);
        CHECK(all[all.size() - 2] == "c of job other is in a round of job job");
    }
    {
        Told told;
        told.running();
        auto stray = Told::result("c", control::Outcome::cancelled);
        stray.run_id = "other";
        told->on_result(stray);
        CHECK(told.hears("c of job other is told the end of job job"));
    }
}
