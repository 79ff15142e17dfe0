// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/coordinator.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

/// The coordinator's data for the pages of a server.
namespace ddprun::coordinator {

std::vector<JobStatus> Coordinator::status(Instant now, std::size_t first_node) const {
    return status_turn(now, {Scope::everything(), {}, first_node, 0, jobs_.size()}).jobs;
}

Coordinator::StatusTurn Coordinator::status_turn(Instant now, const StatusRange& range) const {
    StatusTurn turn;
    auto next = jobs_.upper_bound(range.after);
    for (std::size_t count = 0; count < range.most && next != jobs_.end(); ++count, ++next) {
        const auto& [id, job] = *next;
        turn.last = id;
        const auto& identity = job.identity();
        if (!range.scope.includes(identity.tenant)) continue;
        if (!range.run_id.empty() && identity.run_id != range.run_id) continue;
        turn.jobs.push_back(job.status(now, range.first_node));
        if (range.first_round) turn.jobs.back().timeline = job.timeline(*range.first_round);
        const auto newest = newest_.find(identity.name());
        turn.jobs.back().is_newest = newest == newest_.end() || newest->second == id;
    }
    if (next == jobs_.end()) turn.last = 0;
    return turn;
}

std::uint64_t Coordinator::stale_count() const {
    std::uint64_t count = 0;
    for (const auto& [id, job] : jobs_)
        count += job.stale_count();
    return count;
}

}  // namespace ddprun::coordinator
