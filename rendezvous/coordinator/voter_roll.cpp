// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/voter_roll.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/control/voter_address.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace ddprun::coordinator {
namespace voter_roll {
namespace {

/// With more hosts to choose from than these the choice is the same: some may be those of the
/// leader and of the present voters.
constexpr std::size_t enough_hosts = 2 * limits::max_voters + 1;

std::size_t odd_size(std::size_t count) {
    const auto most = std::min(count, limits::max_voters);
    return most < 3 ? 1 : most - (most + 1) % 2;
}

bool are_same(
    const std::vector<control::VoterPlace>& a, const std::vector<control::VoterPlace>& b) {
    return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
}

/// Of a member beside the server others know the server's address only.
std::string host_of(const JobData& job, const Member& member) {
    if (member.reach.is_beside_server)
        if (auto own = parse_endpoint(job.identity.voter->address, 0)) return std::move(own->host);
    return member.reach.addr;
}

control::VoterPlace place_of(const JobData& job, const Member& member) {
    return {Endpoint{host_of(job, member), member.join.peer_port}.to_string(), member.nonce()};
}

/// Voters are asked without a lookup of their names.
bool is_numeric(const std::string& host) {
    return host.find(':') != std::string::npos ||
           host.find_first_not_of("0123456789.") == std::string::npos;
}

/// Of the server's process, which is a voter already, also when its node has joined again.
bool is_of_leader(const JobData& job, const Member& member) {
    const auto& own = *job.identity.voter;
    return member.nonce() == own.nonce || place_of(job, member).address == own.address;
}

/// A node that is about to go takes its vote with it.
bool may_vote(const JobData& job, const Member& member) {
    return member.stays() && !member.notice && member.group_rank &&
           member.version() >= control::voters_since && member.join.peer_port != 0 &&
           is_numeric(host_of(job, member)) && !is_of_leader(job, member);
}

VoterCandidate leader_of(const JobData& job) {
    const auto& own = *job.identity.voter;
    const auto* member = job.members.find(own.nonce);
    return {own, member == nullptr ? std::string{} : member->host()};
}

/// A witness on the host of a node that may vote is one more process of that host: both are lost
/// together.
std::string host_of_witness(
    const control::VoterPlace& witness,
    const VoterCandidate& leader,
    const std::vector<VoterCandidate>& nodes) {
    const auto address = [](const control::VoterPlace& place) {
        const auto parsed = control::parse_voter_address(place.address);
        return parsed ? parsed->endpoint.host : std::string{};
    };
    const auto own = address(witness);
    if (address(leader.place) == own) return leader.host;
    const auto beside = std::find_if(
        nodes.begin(), nodes.end(), [&](const auto& node) { return address(node.place) == own; });
    return beside == nodes.end() ? witness.address : beside->host;
}

std::vector<VoterCandidate> candidates(const JobData& job) {
    std::vector<VoterCandidate> found;
    std::set<Nonce> voters;
    if (const auto& known = job.voters.known)
        for (const auto& voter : known->set.voters) {
            const auto* member = job.members.find(voter.nonce);
            if (member == nullptr || !may_vote(job, *member)) continue;
            voters.insert(voter.nonce);
            found.push_back({place_of(job, *member), member->host(), true, member->is_connected});
        }
    std::set<std::string> hosts;
    for (const auto& [rank, place] : job.round->places.taken()) {
        if (hosts.size() == enough_hosts) break;
        const auto* member = job.members.find(place.nonce);
        if (member == nullptr || !member->is_connected || voters.contains(place.nonce) ||
            !may_vote(job, *member))
            continue;
        if (hosts.insert(member->host()).second)
            found.push_back({place_of(job, *member), member->host()});
    }
    if (const auto& witness = job.voters.witness)
        found.push_back({*witness, host_of_witness(*witness, leader_of(job), found)});
    return found;
}

}  // namespace
}  // namespace voter_roll

std::vector<control::VoterPlace> choose_voters(
    const VoterCandidate& leader, const std::vector<VoterCandidate>& others) {
    std::vector<control::VoterPlace> chosen{leader.place};
    std::set<std::string> hosts{leader.host};
    const auto choose = [&](auto is_next) {
        for (const auto& one : others)
            if (is_next(one) && hosts.insert(one.host).second) chosen.push_back(one.place);
    };
    choose([](const VoterCandidate& one) { return one.is_voter && one.is_connected; });
    choose([](const VoterCandidate& one) { return one.is_connected; });
    choose([](const VoterCandidate& one) { return one.is_voter; });
    chosen.resize(voter_roll::odd_size(chosen.size()));
    return chosen;
}

bool is_lost_with_server(const JobData& job) {
    if (!job.identity.voter) return job.identity.is_hosted;
    const auto& known = job.voters.known;
    return !known || known->set.voters.size() < 2;
}

bool is_node_of_server(const JobData& job, const Member& member) {
    return job.identity.voter ? voter_roll::is_of_leader(job, member) : member.join.is_hosting;
}

void update_voters(JobStep& step) {
    using namespace voter_roll;
    auto& job = step.job;
    // The voters of a job that is over, or is being ended, stay: another leader may need them for
    // the result, and the end of the record releases only the voters of then ("The end of a
    // job" in rendezvous/voters/README.md).
    if (!job.identity.voter || !job.round || job.is<Recovering>() || job.is<Over>()) return;
    if (job.causes.cancel) return;
    const auto& known = job.voters.known;
    auto& requested = job.voters.requested;
    if (requested) return;
    auto chosen = choose_voters(leader_of(job), candidates(job));
    const bool is_right = known && !known->set.is_joint() && are_same(known->set.voters, chosen);
    if (is_right && !job.voters.is_abandoned) return;
    job.voters.is_abandoned = false;
    requested = chosen;
    step.out.push_back(ChangeVoters{job.identity.run_id, job.identity.epoch, std::move(chosen)});
}

void on_witness_changed(JobStep& step, std::optional<control::VoterPlace> witness) {
    auto& job = step.job;
    auto& [known, present, requested, is_abandoned] = job.voters;
    const bool is_requested =
        present && requested &&
        std::find(requested->begin(), requested->end(), *present) != requested->end();
    present = std::move(witness);
    // These voters stay (`update_voters`).
    if (!is_requested || job.is<Over>() || job.causes.cancel) return;
    requested.reset();
    is_abandoned = true;
}

void on_voters_changed(JobStep& step, control::Voters voters) {
    using namespace voter_roll;
    auto& known = step.job.voters.known;
    auto& requested = step.job.voters.requested;
    if (known && known->lineage == voters.lineage && voters.ballot < known->ballot) return;
    // A change of the leader alone is no news.
    const bool is_news = !known || known->lineage != voters.lineage || known->set != voters.set;
    known = std::move(voters);
    // The first step of the change, or the end of one that an earlier leader has begun, is no
    // answer.
    const auto& set = known->set;
    if (requested && !set.is_joint() && are_same(set.voters, *requested)) requested.reset();
    if (!is_news) return;
    for (const auto* member : std::as_const(step.job.members).by_arrival())
        send_voters(step, *member);
}

void send_voters(const JobStep& step, const Member& member) {
    const auto& known = step.job.voters.known;
    if (known && !step.job.is<Over>() && member.version() >= control::voters_since)
        step.send(member, *known);
}

}  // namespace ddprun::coordinator
