// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/coordinator/draining.hpp"
#include "rendezvous/coordinator/forming.hpp"
#include "rendezvous/coordinator/job.hpp"
#include "rendezvous/coordinator/recovering.hpp"
#include "rendezvous/coordinator/standby.hpp"
#include "rendezvous/coordinator/store_waits.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace ddprun::coordinator {
namespace job_status {
namespace {

std::string seconds(Duration length) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.1f s", in_seconds(length));
    return digits.data();
}

/// "3.0 s", zero when it is past.
std::string left(Instant end, Instant now) {
    return seconds(std::max(Duration{}, end - now));
}

/// How long the condition in the reason lasts, and what follows.
std::string what_next(const JobData& job, Instant now) {
    const auto* forming = std::get_if<Forming>(&job.state);
    if (!forming) return "";
    if (forming->pause_ends && now < *forming->pause_ends)
        return " (" + left(*forming->pause_ends, now) + " left)";
    if (forming->last_call_ends)
        return "; the round begins in " + left(*forming->last_call_ends, now) + " at the latest";
    return "; the job fails in " + left(waits_until(*forming), now) + " unless enough nodes come";
}

/// The incarnation with its nonce cut to 8 digits, since the whole nonce proves membership.
std::string shown_incarnation(std::string_view name) {
    constexpr std::size_t nonce_digits = 32;
    constexpr std::size_t shown_digits = 8;
    std::string shown;
    while (!name.empty()) {
        const auto end = std::min(name.find('-'), name.size());
        const bool is_nonce = end == nonce_digits && Nonce::parse(name.substr(0, end));
        shown += name.substr(0, is_nonce ? shown_digits : end);
        name.remove_prefix(end);
        if (name.empty()) break;
        shown += '-';
        name.remove_prefix(1);
    }
    return shown;
}

std::string reason(const JobData& job, Instant now) {
    return job.is<Recovering>() ? recovery_progress(job, now) : job.history.said.reason;
}

std::string root_cause(const JobData& job, Instant now) {
    if (const auto* over = std::get_if<Over>(&job.state))
        return over->result.root_cause ? over->result.root_cause->reason : "";
    return job.drain() ? verdict_so_far(job, now).cause.reason : "";
}

std::string shown_state(const JobData& job, const Member& member) {
    if (member.is_of_drained_host) return "drained";
    const bool is_spare =
        job.is<Running>() && !member.group_rank && member.state == Member::State::ready;
    return is_spare ? "standby" : std::string{name_of(member.state)};
}

std::string node_reason(const JobData& job, const Member& member, Instant now) {
    const auto& nonce = member.nonce();
    if (!member.is_connected)
        return "disconnected; last heard " + seconds(now - job.silence.heard_at(nonce)) + " ago";
    if (member.drain_reason) return "leaving: " + *member.drain_reason;
    if (member.is_leaving()) return "leaving (" + signal_name(*member.leave_signal) + ")";
    if (member.is_of_drained_host) return standby_reason(job, member);
    if (job.silence.is_silent(nonce, now)) return job.silence.text(nonce, now);
    if (member.hold)
        return standby_reason(job, member) + " (" + left(member.hold->ends_at, now) + " left)";
    switch (member.state) {
        case Member::State::ready:
            return job.is<Forming>() ? "waiting for others" : standby_reason(job, member);
        case Member::State::starting: return "its workers are being started";
        case Member::State::running: return "";
        case Member::State::succeeded: return "its workers are done; waiting for others";
        case Member::State::stopping: return "its workers are being stopped";
        case Member::State::out: return standby_reason(job, member);
    }
    contradiction("a member in no state", __FILE__, __LINE__);
}

std::vector<ProgressStatus> progress_of(const Place& place) {
    std::vector<ProgressStatus> ranks;
    for (const auto& [local_rank, progress] : place.progress) {
        const bool has_phase = progress.phase != control::WorkPhase::none;
        ranks.push_back(
            {place.rank_base + local_rank,
             progress.step,
             has_phase ? std::string{control::name_of(progress.phase)} : std::string{}});
    }
    return ranks;
}

NodeStatus node_status(const JobData& job, const Member& member, Instant now) {
    NodeStatus status;
    status.nonce = member.nonce().to_short_string();
    status.host = member.host();
    status.pid = member.join.node.pid;
    status.addr = member.reach.addr;
    status.role = member.join.role;
    status.state = shown_state(job, member);
    status.reason = node_reason(job, member, now);
    if (member.group_rank && !job.is<Forming>()) {
        const auto& place = job.round->place_of(member);
        status.group_rank = member.group_rank;
        status.rank_because = place.reason;
        status.first_rank = place.rank_base;
        status.last_rank = place.rank_base + (place.nproc - 1);
        status.progress = progress_of(place);
    }
    status.heard_ago_s = in_seconds(now - job.silence.heard_at(member.nonce()));
    return status;
}

std::vector<const Member*> by_rank(const JobData& job) {
    auto members = job.members.by_arrival();
    const auto place = [](const Member* member) {
        return member->group_rank.value_or(limits::max_nodes_per_job);
    };
    std::stable_sort(members.begin(), members.end(), [&](const Member* a, const Member* b) {
        return place(a) < place(b);
    });
    return members;
}

GoodputStatus goodput_status(const JobData& job, Instant now) {
    const auto& ledger = job.history.ledger;
    GoodputStatus status;
    status.totals = ledger.totals(now);
    if (!job.is<Recovering>()) status.decided = ledger.decided(now);
    if (!ledger.is_closed()) status.phase = control::name_of(ledger.phase());
    status.step = ledger.step();
    status.reset_count = ledger.reset_count();
    return status;
}

void count(const JobData& job, JobStatus& status, Instant now) {
    for (const auto* member : job.members.by_arrival()) {
        ++status.nodes_by_state[shown_state(job, *member)];
        if (member->is_active())
            status.workers_by_state[std::string{name_of(member->state)}] +=
                static_cast<std::uint64_t>(member->join.nproc);
    }
    for (const auto& [cause, times] : job.restarts.by_cause)
        status.restarts_by_cause[std::string{control::name_of(cause)}] = times;
    for (std::size_t phase = 0; phase < job.history.phases.spent.size(); ++phase) {
        if (state_name(phase) == "over") continue;
        auto spent = job.history.phases.spent[phase];
        if (phase == job.state.index()) spent += now - job.history.phases.entered_at;
        status.seconds_by_phase[std::string{state_name(phase)}] = in_seconds(spent);
    }
}

}  // namespace
}  // namespace job_status

JobStatus status_of(const JobData& job, Instant now, std::size_t first_node) {
    using namespace job_status;
    JobStatus status;
    status.run_id = job.identity.run_id;
    status.tenant = job.identity.tenant;
    status.epoch = job.identity.epoch;
    status.incarnation = shown_incarnation(job.identity.incarnation);
    status.state = job.history.said.state.empty() ? std::string{state_name(job.state.index())}
                                                  : job.history.said.state;
    status.reason = reason(job, now) + what_next(job, now);
    status.round = job.round ? job.round->number : -1;
    if (job.round) status.round_because = job.round->because;
    status.restarts_used = job.restarts.budget.used();
    status.max_restarts = job.restarts.budget.max();
    status.world_size = job.round ? job.round->world_size : 0;
    status.node_count = job.members.size();
    status.nnodes = control::describe(job.nodes());
    status.root_cause = root_cause(job, now);
    status.store_wait = store_wait_status(job, now);
    status.hang_count = job.history.hang_count;
    status.goodput = goodput_status(job, now);
    if (const auto* running = std::get_if<Running>(&job.state); running && running->hang)
        status.hang = running->hang->headline;
    for (const auto& [host, reason] : job.holds.drained)
        status.drained_hosts.push_back({host, reason});

    const auto members = by_rank(job);
    const auto first = std::min(first_node, members.size());
    const auto last = std::min(first + limits::max_status_nodes, members.size());
    for (auto i = first; i < last; ++i)
        status.nodes.push_back(node_status(job, *members[i], now));
    count(job, status, now);
    return status;
}

}  // namespace ddprun::coordinator
