// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

#include <algorithm>
#include <utility>

/// The ends of jobs: recorded for the next leader, and when jobs are forgotten.
namespace ddprun::coordinator {

/// True when this incarnation is in the list of forgotten jobs.
bool Coordinator::has_ended(const JobName& name, const std::string& incarnation) const {
    const auto found = ended_.find(name.tenant);
    if (found == ended_.end()) return false;
    const auto& ended = found->second;
    return std::find(ended.begin(), ended.end(), std::pair{name.run_id, incarnation}) !=
           ended.end();
}

/// Requests that the job's end be recorded, once for each job.
void Coordinator::record_end(JobId id, std::vector<Effect>& out) {
    const auto* result = jobs_.at(id).unrecorded_result();
    const auto is_of_job = [id](const auto& one) { return one.second == id; };
    if (!result || std::any_of(unrecorded_.begin(), unrecorded_.end(), is_of_job)) return;
    std::vector<std::string> names;
    for (const auto& [name, named] : by_incarnation_)
        if (named == id) names.push_back(name.second);
    ends_.add(std::move(names), *result);
    unrecorded_.emplace(++last_record_, id);
    out.push_back(Record{leadership_.epoch(), last_record_, ends_.encode()});
}

void Coordinator::on_recorded(std::uint64_t number, Instant now, std::vector<Effect>& out) {
    const auto done = unrecorded_.upper_bound(number);
    std::vector<JobId> ids;
    for (auto one = unrecorded_.begin(); one != done; ++one)
        ids.push_back(one->second);
    for (const auto id : ids)
        pass(id, Job::EndRecorded{}, now, out);
    unrecorded_.erase(unrecorded_.begin(), done);
}

void Coordinator::forget(JobId id) {
    const auto found = jobs_.find(id);
    const auto& identity = found->second.identity();
    const bool is_over = found->second.is_over();
    std::erase_if(by_incarnation_, [&](const auto& named) {
        if (named.second != id) return false;
        if (!is_over) return true;
        auto& ended = ended_[identity.tenant];
        ended.emplace_back(identity.run_id, named.first.second);
        if (ended.size() > limits::max_ended_jobs_per_tenant) ended.pop_front();
        return true;
    });
    if (const auto newest = newest_.find(identity.name());
        newest != newest_.end() && newest->second == id) {
        newest_.erase(newest);
        // An earlier job of this id may still be ending.
        for (auto other = by_incarnation_.lower_bound({identity.name(), {}});
             other != by_incarnation_.end() && other->first.first == identity.name();
             ++other)
            newest_[identity.name()] = std::max(newest_[identity.name()], other->second);
    }
    if (const auto deadline = deadline_of_.find(id); deadline != deadline_of_.end()) {
        deadlines_.erase({deadline->second, id});
        deadline_of_.erase(deadline);
    }
    quotas_.count_nodes(identity.tenant, found->second.node_count(), 0);
    quotas_.remove({identity.network, identity.tenant});
    unsettled_.erase(id);
    jobs_.erase(found);
}

}  // namespace ddprun::coordinator
