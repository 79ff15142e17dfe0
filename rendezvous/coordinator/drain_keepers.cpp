// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/drain_keepers.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/voter_roll.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::coordinator {
namespace drain_keepers_of_job {
namespace {

bool can_keep(const Member& member) {
    return member.stays() && member.version() >= control::drained_since;
}

control::Drained list_of(const JobData& job) {
    control::Drained list{job.holds.kept.count, {}};
    for (const auto& [host, reason] : job.holds.drained) {
        if (list.hosts.size() == limits::max_kept_drained_hosts) break;
        list.hosts.push_back({host, reason});
    }
    return list;
}

/// What this member is to have.
control::Drained list_for(const JobData& job, const Nonce& nonce) {
    return job.holds.kept.keepers.contains(nonce)
               ? list_of(job)
               : control::Drained{std::max(1, job.holds.kept.count), {}};
}

bool is_sent(const JobData& job) {
    const auto& kept = job.holds.kept;
    return kept.sent_round == job.round->number && kept.sent_count == kept.count &&
           std::all_of(kept.keepers.begin(), kept.keepers.end(), [&](const Nonce& nonce) {
               const auto* member = job.members.find(nonce);
               return member != nullptr && can_keep(*member);
           });
}

/// The hosts of which no node is a keeper: the server's.
std::set<std::string> hosts_of_server(const JobData& job) {
    std::set<std::string> hosts;
    if (!is_lost_with_server(job)) return hosts;
    for (const auto* member : job.members.by_arrival())
        if (is_node_of_server(job, *member)) hosts.insert(member->host());
    return hosts;
}

}  // namespace
}  // namespace drain_keepers_of_job

std::set<Nonce> drain_keepers(const JobData& job) {
    std::set<Nonce> keepers;
    auto hosts = drain_keepers_of_job::hosts_of_server(job);
    for (const auto& [rank, place] : job.round->places.taken()) {
        if (keepers.size() == limits::drain_keeper_count) break;
        const auto* member = job.members.find(place.nonce);
        if (member == nullptr || !drain_keepers_of_job::can_keep(*member)) continue;
        if (hosts.insert(member->host()).second) keepers.insert(place.nonce);
    }
    return keepers;
}

void note_drain_change(JobData& job) {
    auto& count = job.holds.kept.count;
    count = std::min(count + 1, limits::max_drain_changes);
    job.holds.kept.sent_round.reset();
}

void update_drain_keepers(JobStep& step) {
    using namespace drain_keepers_of_job;
    auto& job = step.job;
    auto& kept = job.holds.kept;
    if (kept.count == 0 || job.is<Recovering>() || job.is<Over>()) return;
    if (!job.round || is_sent(job)) return;
    auto former = std::exchange(kept.keepers, drain_keepers(job));
    former.insert(kept.keepers.begin(), kept.keepers.end());
    for (const auto& nonce : former)
        if (const auto* member = job.members.find(nonce)) step.send(*member, list_for(job, nonce));
    kept.sent_count = kept.count;
    kept.sent_round = job.round->number;
}

void repeat_drained_hosts(const JobStep& step, const control::Resume& resume) {
    using namespace drain_keepers_of_job;
    const auto& job = step.job;
    const auto& nonce = resume.join.node.nonce;
    const auto* member = job.members.find(nonce);
    if (member == nullptr || job.is<Recovering>()) return;
    const bool is_keeper = job.holds.kept.keepers.contains(nonce);
    const bool has_list = resume.drained && !resume.drained->hosts.empty();
    auto list = list_for(job, nonce);
    if (is_keeper ? resume.drained != list : has_list) step.send(*member, std::move(list));
}

void restore_drained_hosts(JobStep& step, const control::Resume& resume) {
    if (!resume.drained) return;
    auto& job = step.job;
    auto& hosts = job.holds.drained;
    auto& kept = job.holds.kept;
    // Whatever a node states, there are changes left to count.
    const int count = std::min(resume.drained->count, limits::max_drain_changes / 2);
    kept.keepers.insert(resume.join.node.nonce);
    if (count < kept.count) return;
    if (count > kept.count) hosts.clear();
    kept.count = count;
    for (const auto& [host, reason] : resume.drained->hosts)
        if (hosts.size() < limits::max_drained_hosts)
            hosts.emplace(host, reason.empty() ? "drained under an earlier server" : reason);
    hold_nodes_of_drained_hosts(job);
}

void hold_nodes_of_drained_hosts(JobData& job) {
    for (auto* member : job.members.by_arrival())
        member->is_of_drained_host =
            !member->group_rank && job.holds.drained.contains(member->host());
}

}  // namespace ddprun::coordinator
