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

std::string seconds(Duration length) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.1f s", in_seconds(length));
    return digits.data();
}

std::string ago(Duration length) {
    return seconds(length) + " ago";
}

}  // namespace
}  // namespace job_status

/// How long what the reason tells of lasts, and what follows.
std::string Job::what_next(Instant now) const {
    const auto left = [&](Instant end) {
        return job_status::seconds(std::max(Duration{}, end - now));
    };
    if (pause_ends_ && now < *pause_ends_) return " (" + left(*pause_ends_) + " left)";
    if (state_ != State::forming) return "";
    if (last_call_ends_)
        return "; the round begins in " + left(*last_call_ends_) + " at the latest";
    return "; the job fails in " + left(*join_ends_) + " unless enough nodes come";
}

JobStatus Job::status(Instant now, std::size_t first_node) const {
    JobStatus status;
    status.run_id = identity_.run_id;
    status.incarnation = identity_.incarnation;
    status.state = state_name_.empty() ? std::string{name_of(state_)} : state_name_;
    status.reason = state_ == State::recovering ? recovery_progress(now) : reason_;
    status.reason += what_next(now);
    status.round = round_ ? round_->number : -1;
    if (round_) status.round_because = round_->because;
    status.restarts_used = budget_.used();
    status.max_restarts = budget_.max();
    status.world_size = round_ ? round_->world_size : 0;
    status.node_count = members_.size();
    if (result_ && result_->first_cause)
        status.first_cause = result_->first_cause->reason;
    else if (stop_)
        status.first_cause = cause_so_far().reason;

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
    count(status, now);
    return status;
}

void Job::count(JobStatus& status, Instant now) const {
    for (const auto* member : members_.by_arrival()) {
        ++status.nodes_by_state[shown_state(*member)];
        if (member->is_active())
            status.workers_by_state[std::string{name_of(member->state)}] +=
                static_cast<std::uint64_t>(member->join.nproc);
    }
    for (const auto& [cause, times] : restarts_)
        status.restarts_by_cause[std::string{control::name_of(cause)}] = times;
    for (const auto phase : {State::forming, State::running, State::draining, State::recovering}) {
        auto spent = spent_in_.at(static_cast<std::size_t>(phase));
        if (phase == state_) spent += now - entered_at_;
        status.seconds_by_phase[std::string{name_of(phase)}] = in_seconds(spent);
    }
}

std::string Job::shown_state(const Member& member) const {
    const bool is_spare =
        state_ == State::running && !member.group_rank && member.state == Member::State::ready;
    return is_spare ? "standby" : std::string{name_of(member.state)};
}

NodeStatus Job::node_status(const Member& member, Instant now) const {
    NodeStatus status;
    status.nonce = member.nonce().to_string();
    status.host = member.host();
    status.pid = member.join.node.pid;
    status.addr = member.reach.addr;
    status.role = member.join.role;
    status.state = shown_state(member);
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
    if (is_silent(member, now)) return silence_text(member, now);
    if (member.hold)
        return standby_reason(member) + " (" +
               job_status::seconds(std::max(Duration{}, member.hold->ends_at - now)) + " left)";
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
