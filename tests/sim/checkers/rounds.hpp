// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace ddprun::sim {

/// Invariants 2 and 3: round numbers only grow, and no worker starts while a worker of another
/// round of its run id lives, whatever its incarnation.
class Rounds {
public:
    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) {
        auto& newest = newest_[fact.incarnation];
        if (fact.round() < newest)
            complaints.push_back(
                fact.host + " starts round " + std::to_string(fact.round()) + " after round " +
                std::to_string(newest));
        newest = std::max(newest, fact.round());
        for (const auto& [worker, other] : living_)
            if (other.run_id == fact.run_id && !is_same_round(other, fact) && acts(worker) &&
                !may_be_unknown(worker, fact.at))
                complaints.push_back(
                    fact.host + " starts round " + std::to_string(fact.round()) + " while " +
                    other.host + " has a worker of round " + std::to_string(other.round()));
        living_[{fact.host, fact.pid}] = fact;
    }

    /// A restarted daemon gets its jobs from their nodes. If nodes join before any node of an old
    /// job has come back, they begin another job (docs/coordinator-decisions.md). The workers of
    /// the old job have ended by the fence of their nodes, which is within the lease.
    void on_daemon_replaced(Instant now, Duration lease) {
        for (const auto& [worker, fact] : living_)
            unknown_until_[worker] = now + lease;
    }

    void on_worker_ended(const std::string& host, int pid) {
        living_.erase({host, pid});
        unknown_until_.erase({host, pid});
        stuck_.erase({host, pid});
    }

    /// The worker is inside a system call: it does nothing, and cannot be killed.
    void on_worker_stuck(const std::string& host, int pid) { stuck_.insert({host, pid}); }

    void on_host_asleep(const std::string& host) { asleep_.insert(host); }

    void on_host_awake(const std::string& host, Complaints& complaints) {
        asleep_.erase(host);
        for (const auto& [worker, fact] : living_)
            if (worker.first == host && acts(worker) && fact.round() < newest_[fact.incarnation])
                complaints.push_back(
                    host + " wakes up and goes on in round " + std::to_string(fact.round()) +
                    " while there is a round " + std::to_string(newest_[fact.incarnation]));
    }

    /// After a job succeeded no worker runs.
    void on_result(const ResultSeen& fact, Complaints& complaints) const {
        if (fact.result.outcome != control::Outcome::succeeded) return;
        const auto newest = newest_.find(fact.incarnation);
        for (const auto& [worker, other] : living_)
            if (other.incarnation == fact.incarnation && other.round() == newest->second)
                complaints.push_back(
                    fact.host + " got a success while a worker on " + other.host + " is not done");
    }

    std::size_t living_count() const { return living_.size(); }

private:
    /// Host and pid.
    using Worker = std::pair<std::string, int>;

    bool acts(const Worker& worker) const {
        return !stuck_.contains(worker) && !asleep_.contains(worker.first);
    }

    bool may_be_unknown(const Worker& worker, Instant now) const {
        const auto until = unknown_until_.find(worker);
        return until != unknown_until_.end() && now < until->second;
    }

    static bool is_same_round(const WorkerStarted& one, const WorkerStarted& other) {
        return one.incarnation == other.incarnation && one.round() == other.round();
    }

    std::map<std::string, int> newest_;  ///< by incarnation
    std::map<Worker, WorkerStarted> living_;
    std::map<Worker, Instant> unknown_until_;
    std::set<Worker> stuck_;
    std::set<std::string> asleep_;
};

}  // namespace ddprun::sim
