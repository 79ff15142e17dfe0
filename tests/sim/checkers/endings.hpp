// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/facts.hpp"

#include <map>
#include <set>
#include <string>

namespace ddprun::sim {

/// With elected servers: once a node has got the end of a job, no later leader contradicts it. No
/// worker of the job starts any more, and a node that was a member at the end gets that end instead
/// of running another job under that id.
class Endings {
public:
    void on_worker_started(const WorkerStarted& fact, Complaints& complaints) {
        if (ended_.contains(fact.incarnation))
            complaints.push_back(
                fact.host + " starts round " + std::to_string(fact.round()) +
                " of a job that has ended");
        const auto before = member_of_.find(fact.host);
        const bool is_other = before != member_of_.end() && before->second != fact.incarnation;
        if (is_other && turned_away_.contains({fact.host, before->second}))
            complaints.push_back(
                fact.host + " starts round " + std::to_string(fact.round()) +
                " of another job: it was not notified of how the one before ended");
        member_of_[fact.host] = fact.incarnation;
    }

    void on_result(const ResultSeen& fact) {
        ended_.insert(fact.incarnation);
        member_of_.erase(fact.host);
    }

    /// The job had ended when a leader counted this member as lost, so it was a member at the end.
    void on_lost(const LostSeen& fact) {
        if (ended_.contains(fact.incarnation)) turned_away_.insert({fact.host, fact.incarnation});
    }

private:
    std::set<std::string> ended_;
    std::map<std::string, std::string> member_of_;
    std::set<std::pair<std::string, std::string>> turned_away_;
};

}  // namespace ddprun::sim
