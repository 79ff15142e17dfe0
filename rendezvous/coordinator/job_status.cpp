// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/job.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

/// The part of `Job` that people see.
namespace ddprun::coordinator {
namespace job_status {
namespace {

std::string ago(Duration length) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.1f s ago", in_seconds(length));
    return digits.data();
}

}  // namespace
}  // namespace job_status

JobStatus Job::status(Instant now, std::size_t first_node) const {
    JobStatus status;
    status.run_id = identity_.run_id;
    status.incarnation = identity_.incarnation;
    status.state = state_name_.empty() ? std::string{name_of(state_)} : state_name_;
    status.reason = reason_;
    status.round = round_ ? round_->number : -1;
    status.restarts_used = budget_.used();
    status.max_restarts = budget_.max();
    status.world_size = round_ ? round_->world_size : 0;
    status.node_count = members_.size();
    if (result_ && result_->first_cause)
        status.first_cause = result_->first_cause->reason;
    else if (stop_)
        status.first_cause = stop_->first_cause.reason;

    auto members = members_.by_arrival();
    const auto place = [](const Member* member) {
        return member->group_rank.value_or(limits::max_nodes_per_job);
    };
    std::stable_sort(members.begin(), members.end(), [&](const Member* a, const Member* b) {
        return place(a) < place(b);
    });
    const auto first = std::min(first_node, members.size());
    const auto last = std::min(first + limits::max_status_nodes, members.size());
    for (auto i = first; i < last; ++i)
        status.nodes.push_back(node_status(*members[i], now));
    return status;
}

NodeStatus Job::node_status(const Member& member, Instant now) const {
    NodeStatus status;
    status.nonce = member.nonce().to_string();
    status.host = member.host();
    status.pid = member.join.node.pid;
    status.addr = member.reach.addr;
    status.role = member.join.role;
    const bool is_spare =
        state_ == State::running && !member.group_rank && member.state == Member::State::ready;
    status.state = is_spare ? "standby" : std::string{name_of(member.state)};
    status.reason = node_reason(member, now);
    if (member.group_rank && state_ != State::forming) {
        const auto& place = place_of(member);
        status.group_rank = member.group_rank;
        status.first_rank = place.rank_base;
        status.last_rank = place.rank_base + place.nproc - 1;
    }
    status.heard_ago_s = in_seconds(now - member.heard_at);
    return status;
}

std::string Job::node_reason(const Member& member, Instant now) const {
    if (!member.is_connected)
        return "disconnected; last heard " + job_status::ago(now - member.heard_at);
    if (member.is_leaving()) return "leaving (" + signal_name(*member.leave_signal) + ")";
    if (has_lease() && now - member.heard_at >= limits::suspect_after)
        return "silent; last heard " + job_status::ago(now - member.heard_at);
    switch (member.state) {
        case Member::State::ready:
            return state_ == State::forming ? "waiting for others" : standby_reason(member);
        case Member::State::starting: return "its workers are being started";
        case Member::State::running: return "";
        case Member::State::succeeded: return "its workers are done; waiting for others";
        case Member::State::stopping: return "its workers are being stopped";
        case Member::State::out: return standby_reason(member);
    }
    contradiction("a member in no state", __FILE__, __LINE__);
}

}  // namespace ddprun::coordinator
