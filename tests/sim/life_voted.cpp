// SPDX-License-Identifier: Apache-2.0
// Lives of clusters whose nodes vote about the leader: faults of the leader, and of the paths
// between voters.
#include "rendezvous/base/text.hpp"
#include "tests/sim/life.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

/// A lease of the record, and a few attempts.
constexpr Duration longest_election = 12s;

}  // namespace

const std::vector<Life::Fault>& Life::voted_faults() {
    static const std::vector<Fault> all{
        {2, &Life::worker_crashes},        {2, &Life::worker_fails},
        {2, &Life::worker_succeeds},       {2, &Life::worker_ignores_the_polite_signal},
        {1, &Life::worker_gets_stuck},     {3, &Life::all_workers_succeed},
        {1, &Life::agent_is_killed},       {1, &Life::agent_is_stopped},
        {2, &Life::agent_is_continued},    {1, &Life::host_loses_power},
        {1, &Life::host_sleeps},           {2, &Life::host_wakes_up},
        {2, &Life::host_is_cut_off},       {4, &Life::host_is_healed},
        {2, &Life::path_to_server_is_cut}, {2, &Life::path_between_hosts_is_cut},
        {2, &Life::connection_is_lost},    {3, &Life::node_is_started},
        {1, &Life::node_gets_a_signal},    {3, &Life::leader_is_killed},
        {4, &Life::leader_is_frozen},      {4, &Life::leader_is_cut_from_some},
        {2, &Life::leader_gets_sigterm},
    };
    return all;
}

const std::vector<Life::Fault>& Life::witnessed_faults() {
    static const auto all = [] {
        auto faults = voted_faults();
        faults.insert(
            faults.end(),
            {{2, &Life::witness_is_killed},
             {3, &Life::witness_is_started},
             {3, &Life::host_is_cut_from_witness}});
        return faults;
    }();
    return all;
}

/// So many nodes that there are voters besides the leader. Every third life has a witness.
Cluster::Options Life::voted_options(std::uint64_t seed) {
    auto options = elected_options(seed);
    options.engine = Cluster::Engine::voters;
    options.has_witness = seed % 3 == 0;
    const int nodes = options.has_witness ? 2 : 3;
    options.nodes.max = std::max(options.nodes.max, options.nodes.unit ? 4 : nodes);
    return options;
}

/// Whether a majority of the voters runs, and each of them reaches each other node.
bool Life::can_elect() {
    std::vector<Host*> running;
    for (auto* host : cluster_.hosts())
        if (host->is_willing()) running.push_back(host);
    std::set<Nonce> healthy;
    for (const auto* host : running) {
        const auto* voter = host->voter();
        if (voter == nullptr || voter->is_over()) return false;
        const bool reaches_all =
            std::all_of(running.begin(), running.end(), [&](const Host* other) {
                const auto& network = cluster_.network();
                return host == other || (network.connects(host->name(), other->name()) &&
                                         network.connects(other->name(), host->name()));
            });
        if (reaches_all && voter->known())
            healthy.insert(voter->names().begin(), voter->names().end());
    }
    return !healthy.empty() && !cluster_.checkers().votes().is_lost("job", healthy);
}

/// In a long pause a leader is elected, if one can be.
std::string Life::pass_a_pause() {
    const auto pause = any_pause();
    const bool is_watched = servers_ == Servers::voted && pause > longest_election && can_elect();
    cluster_.pass(pause);
    if (!is_watched || !can_elect() || cluster_.leader("job") != nullptr) return {};
    return "no node leads after " + seconds_text(pause);
}

void Life::leader_is_cut_from_some() {
    auto* host = leader();
    if (host == nullptr) return;
    for (const auto* other : cluster_.hosts()) {
        if (other == host || other->has_just_broken() || one_in(3)) continue;
        const int ways = any(1, 3);
        if ((ways & 1) != 0) cluster_.network().cut(host->name(), other->name());
        if ((ways & 2) != 0) cluster_.network().cut(other->name(), host->name());
        cluster_.world().note(
            host->name() + " is cut from " + other->name() + ", ways " + std::to_string(ways));
    }
}

void Life::witness_is_killed() {
    cluster_.world().note("witness: killed");
    cluster_.witness().kill();
}

void Life::witness_is_started() {
    if (!cluster_.options().has_witness || cluster_.witness().is_up()) return;
    cluster_.world().note("witness: started");
    cluster_.witness().start();
}

void Life::host_is_cut_from_witness() {
    auto& host = one_in(2) && leader() != nullptr ? *leader() : any_host();
    const int ways = any(1, 3);
    if ((ways & 1) != 0) cluster_.network().cut(host.name(), WitnessHost::place);
    if ((ways & 2) != 0) cluster_.network().cut(WitnessHost::place, host.name());
    cluster_.world().note(host.name() + " is cut from the witness, ways " + std::to_string(ways));
}

/// When too few voters are left the record is lost by design, and a node that knows none and finds
/// none at the endpoints cannot know of the job: then these nodes only have to end.
bool Life::may_take_part(const Host& host) {
    if (servers_ != Servers::voted) return true;
    const auto* voter = host.voter();
    return voter != nullptr && !cluster_.is_record_lost() &&
           (voter->known() || cluster_.are_voters_found());
}

}  // namespace ddprun::sim
