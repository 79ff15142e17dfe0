// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/standby.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/coordinator/running.hpp"

#include <algorithm>

namespace ddprun::coordinator {
namespace standby {
namespace {

std::string held_text(const Hold& hold) {
    return "its host was lost or left more than once within 10 min: it stands by for " +
           std::to_string(std::chrono::ceil<std::chrono::seconds>(hold.length).count()) +
           " s, unless it is needed";
}

/// True when other members of the round run on the same host, so the host itself counts as
/// reliable.
bool has_other_nodes_at(const JobData& job, const std::string& host) {
    if (!job.round) return false;
    const auto& places = job.round->places.taken();
    return std::any_of(places.begin(), places.end(), [&](const auto& place) {
        return place.second.host == host && job.members.find(place.second.nonce) != nullptr;
    });
}

/// "the job runs with 2 nodes and grows by 2 at a time (--node-unit): 1 more is needed".
std::string unit_reason(const JobData& job, std::size_t unit) {
    const auto waiting = job.waiting_count();
    return "the job runs with " + counted(job.round->places.size(), "node") + " and grows by " +
           std::to_string(unit) +
           " at a time (--node-unit): " + std::to_string(unit - waiting % unit) + " more needed";
}

std::string late_reason(const JobData& job) {
    const auto& unit = job.nodes().unit;
    const bool may_grow =
        job.terms.settings.late_nodes != control::LateNodes::never && !job.has_successes();
    if (unit && may_grow && job.growth() == 0)
        return unit_reason(job, static_cast<std::size_t>(*unit));
    const auto places = counted(job.round->places.size(), "node");
    switch (job.terms.settings.late_nodes) {
        case control::LateNodes::restart:
            return job.has_successes()
                       ? "the first workers have finished: the job does not restart for one more"
                       : "the job restarts in a moment to let this node in";
        case control::LateNodes::at_restart:
            return "the job runs with " + places + "; this one gets in at the next restart";
        case control::LateNodes::never:
            return "the job runs with " + places + "; this one takes the next free place";
    }
    contradiction("no policy for late nodes", __FILE__, __LINE__);
}

}  // namespace
}  // namespace standby

std::string standby_reason(const JobData& job, const Member& member) {
    if (member.state == Member::State::out) return "its workers of an earlier round are not gone";
    if (member.is_of_drained_host)
        return "its host was " + job.holds.drained.at(member.host()) +
               ": it stands by until 'ddprunctl undrain'";
    if (member.hold) return standby::held_text(*member.hold);
    if (job.is<Draining>()) return "between two rounds: " + job.history.said.reason;
    if (!job.is<Running>()) return job.history.said.reason;
    if (job.has_room()) return standby::late_reason(job);
    const auto places = counted(job.round->places.size(), "node");
    if (job.keeps_spares())
        return "spare: the job is full with " + places + ", this one takes the next free place";
    return "the job is full with " + places + "; waiting to know that all of them are there";
}

void hold_back(JobStep& step, Member& member) {
    auto& job = step.job;
    if (job.is<Recovering>()) return;
    const auto until = job.holds.hosts.stands_by_until(member.host(), step.now);
    if (!until || standby::has_other_nodes_at(job, member.host())) return;
    member.hold = Hold{*until, *until - step.now};
    job.holds.ends_at = earliest(job.holds.ends_at, until);
    step.note("node " + member.name() + ": " + standby::held_text(*member.hold));
}

void end_holds_if_due(JobStep& step) {
    auto& job = step.job;
    auto& ends_at = job.holds.ends_at;
    if (!ends_at || step.now < *ends_at) return;
    ends_at.reset();
    for (auto* member : job.members.by_arrival()) {
        if (!member->hold) continue;
        if (step.now < member->hold->ends_at) {
            ends_at = earliest(ends_at, member->hold->ends_at);
            continue;
        }
        member->hold.reset();
        if (job.is<Running>() && member->is_candidate()) consider_late_node(step, *member);
    }
}

}  // namespace ddprun::coordinator
