// SPDX-License-Identifier: Apache-2.0
// Lives of clusters that elect the server: faults of the leader and of etcd.
#include "rendezvous/base/limits.hpp"
#include "tests/sim/life.hpp"

#include <signal.h>

#include <algorithm>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

/// Together with the time to elect a leader again it is below 0.8 of the shortest lease.
constexpr int longest_calm_outage_s = 5;
/// Only the leader is cut off; a new one then needs a request to etcd that does not run into its
/// time limit.
constexpr int longest_calm_cut_s = 15;

}  // namespace

const std::vector<Life::Fault>& Life::elected_faults() {
    static const std::vector<Fault> all{
        {2, &Life::worker_crashes},
        {2, &Life::worker_fails},
        {2, &Life::worker_succeeds},
        {2, &Life::worker_ignores_the_polite_signal},
        {1, &Life::worker_gets_stuck},
        {4, &Life::all_workers_succeed},
        {1, &Life::agent_is_killed},
        {1, &Life::agent_is_stopped},
        {2, &Life::agent_is_continued},
        {1, &Life::host_loses_power},
        {1, &Life::host_sleeps},
        {2, &Life::host_wakes_up},
        {2, &Life::host_is_cut_off},
        {4, &Life::host_is_healed},
        {2, &Life::path_to_server_is_cut},
        {1, &Life::path_between_hosts_is_cut},
        {2, &Life::connection_is_lost},
        {3, &Life::node_is_started},
        {1, &Life::node_gets_a_signal},
        {3, &Life::leader_is_killed},
        {4, &Life::leader_is_frozen},
        {4, &Life::leader_is_cut_from_etcd},
        {2, &Life::leader_gets_sigterm},
        {2, &Life::etcd_goes_away},
        {3, &Life::etcd_comes_back},
        {2, &Life::etcd_is_slow},
        {3, &Life::answers_of_etcd_are_lost},
        {1, &Life::host_is_cut_from_etcd},
    };
    return all;
}

/// Faults that affect no node, and can only take the leadership away.
const std::vector<Life::Fault>& Life::calm_faults() {
    static const std::vector<Fault> all{
        {2, &Life::etcd_is_away_for_a_moment},
        {2, &Life::leader_is_cut_from_etcd_for_a_moment},
        {1, &Life::etcd_is_slow},
        {2, &Life::answers_of_etcd_are_lost},
    };
    return all;
}

Cluster::Options Life::elected_options(std::uint64_t seed) {
    auto options = given_options(seed);
    options.engine = Cluster::Engine::etcd;
    options.hosted_by.clear();
    options.settings.lease = std::chrono::seconds{one_in(2) ? 30 : any(20, 40)};
    if (!is_calm_) return options;
    options.nodes.min = options.nodes.max = std::max(options.nodes.max, 2);
    options.nodes.unit.reset();
    options.nodes.spares = 0;
    return options;
}

/// A change of the leader alone signals no worker.
std::string Life::play_calm() {
    for (int i = 0; i < cluster_.options().nodes.max; ++i)
        start_node();
    if (!cluster_.until([&] { return cluster_.is_training(); }, 60s)) return "no round begins";
    cluster_.pass(2s);
    cluster_.checkers().expect_no_signal(true);
    const int count = any(1, 4);
    for (int i = 0; i < count && problem().empty(); ++i) {
        do_something();
        // Long enough for all nodes to be back.
        cluster_.pass(std::chrono::seconds{any(20, 40)});
        cluster_.etcd().be_slow({});
        cluster_.etcd().lose_answers(0);
    }
    if (problem().empty() && !cluster_.is_training()) return "the round does not go on";
    cluster_.checkers().expect_no_signal(false);
    return problem().empty() ? come_to_an_end() : problem();
}

Host* Life::leader() {
    return cluster_.leader(has_two_jobs_ && one_in(2) ? "other" : "job");
}

/// In one of two cases the fault comes in the middle of the server's output.
void Life::hold_its_output(Host& host) {
    if (!one_in(2)) return;
    host.own_server()->hold_output();
    cluster_.pass(std::chrono::milliseconds{any(0, one_in(2) ? 30 : 2'000)});
}

void Life::leader_is_killed() {
    auto* host = leader();
    if (host == nullptr) return;
    hold_its_output(*host);
    if (one_in(4))
        host->switch_off();
    else
        host->kill();
    host->own_server()->go_on_writing();
}

void Life::leader_is_frozen() {
    auto* host = leader();
    if (host == nullptr) return;
    hold_its_output(*host);
    if (one_in(4))
        host->suspend();
    else
        host->stop_agent();
    host->own_server()->go_on_writing();
    // This may be longer than its lease, or than those of its nodes.
    cluster_.pass(std::chrono::milliseconds{any(0, one_in(2) ? 15'000 : 60'000)});
    if (one_in(3)) return;
    host->wake_up();
    host->continue_agent();
}

void Life::leader_is_cut_from_etcd() {
    auto* host = leader();
    if (host != nullptr) cut_from_etcd(*host);
}

void Life::host_is_cut_from_etcd() {
    cut_from_etcd(any_host());
}

void Life::cut_from_etcd(const Host& host) {
    const int ways = any(1, 3);
    if ((ways & 1) != 0) cluster_.network().cut(host.name(), Etcd::place);
    if ((ways & 2) != 0) cluster_.network().cut(Etcd::place, host.name());
    cluster_.world().note(host.name() + " is cut from etcd, ways " + std::to_string(ways));
}

void Life::leader_gets_sigterm() {
    if (auto* host = leader()) host->signal(SIGTERM);
}

void Life::etcd_goes_away() {
    const bool is_killed = one_in(2);
    cluster_.world().note(is_killed ? "etcd: killed" : "etcd: stopped");
    if (is_killed)
        cluster_.etcd().kill();
    else
        cluster_.etcd().stop();
}

void Life::etcd_comes_back() {
    cluster_.world().note("etcd: well");
    cluster_.etcd().be_slow({});
    cluster_.etcd().go_on();
}

void Life::etcd_is_slow() {
    cluster_.world().note("etcd: slow");
    cluster_.etcd().be_slow(std::chrono::milliseconds{any(100, is_calm_ ? 1'000 : 6'000)});
}

void Life::answers_of_etcd_are_lost() {
    cluster_.world().note("etcd: answers are lost");
    cluster_.etcd().lose_answers(any(1, 3));
}

void Life::etcd_is_away_for_a_moment() {
    etcd_goes_away();
    cluster_.pass(std::chrono::milliseconds{any(0, longest_calm_outage_s * 1'000)});
    etcd_comes_back();
}

void Life::leader_is_cut_from_etcd_for_a_moment() {
    auto* host = leader();
    if (host == nullptr) return;
    cut_from_etcd(*host);
    cluster_.pass(std::chrono::milliseconds{any(0, longest_calm_cut_s * 1'000)});
    host->heal();
}

}  // namespace ddprun::sim
