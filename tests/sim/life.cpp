// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/life.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/text.hpp"

#include <signal.h>

#include <algorithm>
#include <numeric>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr int most_nodes = 9;

}  // namespace

Life::Life(std::uint64_t seed, Servers servers)
    : servers_(servers),
      is_calm_(servers == Servers::elected && seed % 5 == 0),
      is_draining_(servers == Servers::fixed && seed % 8 == 5),
      dice_(seed),
      cluster_(seed, options(seed)) {}

Cluster::Options Life::options(std::uint64_t seed) {
    switch (servers_) {
        case Servers::fixed: return given_options(seed);
        case Servers::elected: return elected_options(seed);
        case Servers::voted: return voted_options(seed);
    }
    return {};
}

Cluster::Options Life::given_options(std::uint64_t seed) {
    Cluster::Options options;
    options.nodes.min = any(1, 3);
    options.nodes.max = options.nodes.min + any(0, 3);
    // A fixed value, so that lives without a unit have the same history as before.
    constexpr int unit = 2;
    if (seed % 4 == 3) {
        options.nodes.unit = unit;
        options.nodes.min = (options.nodes.min + 1) / unit * unit;
        options.nodes.max = (options.nodes.max + 1) / unit * unit;
    }
    options.nodes.spares = one_in(4) ? 1 : 0;
    options.workers = any(1, 2);
    options.restarts = any(0, 3);
    options.weather.longest = std::chrono::milliseconds{any(1, 20)};
    if (one_in(4)) options.weather.bytes_per_second = 100'000;
    if (one_in(2)) options.weather.slowest_resend = std::chrono::milliseconds{any(1, 5'000)};
    if (one_in(4)) options.manners.slowest_spawn = std::chrono::milliseconds{any(1, 3'000)};
    if (one_in(4)) options.manners.slowest_start = std::chrono::milliseconds{any(5, 20'000)};
    if (one_in(2)) options.manners.slowest_end = std::chrono::milliseconds{any(2, 10'000)};
    options.settings.late_nodes = static_cast<control::LateNodes>(any(0, 2));
    options.settings.grace = std::chrono::seconds{any(1, 30)};
    options.settings.lease = std::chrono::seconds{one_in(2) ? 30 : any(6, 40)};
    options.settings.last_call_timeout = std::chrono::seconds{any(1, 30)};
    options.settings.join_timeout = 120s;
    options.settings.max_losses = any(1, 10);
    auto& restart = options.settings.restart;
    restart.shortest_delay = std::chrono::seconds{std::max(any(-5, 5), 0)};
    restart.longest_delay = 4 * restart.shortest_delay;
    // A job of one node always serves itself.
    if (options.nodes.max > 1 && one_in(3)) options.hosted_by = "n1";
    options.manners.can_hold = seed % 7 < 3;
    return options;
}

std::string Life::play() {
    if (is_calm_) return play_calm();
    has_two_jobs_ = servers_ != Servers::voted && cluster_.options().hosted_by.empty() && one_in(3);
    const int first_nodes = any(1, cluster_.options().nodes.max + 1) * (has_two_jobs_ ? 2 : 1);
    for (int i = 0; i < first_nodes; ++i)
        start_node();
    const int count = any(0, 15);
    for (int i = 0; i < count && problem().empty(); ++i) {
        if (const auto wrong = pass_a_pause(); !wrong.empty()) return wrong;
        do_something();
    }
    heal_everything();
    if (problem().empty())
        if (const auto wrong = come_to_rest(); !wrong.empty()) return wrong;
    return problem().empty() ? come_to_an_end() : problem();
}

/// Short and long pauses: faults in quick succession hit half-done work.
Duration Life::any_pause() {
    return std::chrono::milliseconds{any(0, one_in(2) ? 50 : 20'000)};
}

Host& Life::any_host() {
    const auto hosts = cluster_.hosts();
    return *hosts[static_cast<std::size_t>(any(0, static_cast<int>(hosts.size()) - 1))];
}

Host* Life::any_whole_host() {
    auto& host = any_host();
    return host.is_alive() && !host.has_just_broken() ? &host : nullptr;
}

void Life::start_node() {
    const bool is_of_second_job = has_two_jobs_ && one_in(2);
    cluster_.start("n" + std::to_string(++node_count_), is_of_second_job ? "other" : "job");
}

const std::vector<Life::Fault>& Life::faults() const {
    if (is_calm_) return calm_faults();
    if (is_draining_) return draining_faults();
    if (servers_ == Servers::voted)
        return cluster_.options().has_witness ? witnessed_faults() : voted_faults();
    return servers_ == Servers::elected ? elected_faults() : fixed_faults();
}

const std::vector<Life::Fault>& Life::fixed_faults() {
    static const std::vector<Fault> all{
        {3, &Life::worker_crashes},        {3, &Life::worker_fails},
        {2, &Life::worker_succeeds},       {3, &Life::worker_ignores_the_polite_signal},
        {1, &Life::worker_gets_stuck},     {2, &Life::all_workers_succeed},
        {2, &Life::agent_is_killed},       {2, &Life::agent_is_stopped},
        {2, &Life::agent_is_continued},    {2, &Life::host_loses_power},
        {2, &Life::host_sleeps},           {2, &Life::host_wakes_up},
        {3, &Life::host_is_cut_off},       {4, &Life::host_is_healed},
        {2, &Life::path_to_server_is_cut}, {1, &Life::path_between_hosts_is_cut},
        {3, &Life::connection_is_lost},    {3, &Life::node_is_started},
        {1, &Life::node_gets_a_signal},    {1, &Life::server_stops},
        {2, &Life::server_continues},      {1, &Life::server_is_replaced},
    };
    return all;
}

const std::vector<Life::Fault>& Life::draining_faults() {
    static const std::vector<Fault> all = [] {
        auto faults = fixed_faults();
        faults.push_back({15, &Life::node_is_drained});
        faults.push_back({3, &Life::host_is_undrained});
        faults.push_back({5, &Life::job_is_resized});
        return faults;
    }();
    return all;
}

void Life::do_something() {
    const auto& all = faults();
    const int sum = std::accumulate(all.begin(), all.end(), 0, [](int before, const Fault& fault) {
        return before + fault.weight;
    });
    int left = any(1, sum);
    const auto chosen = std::find_if(
        all.begin(), all.end(), [&](const Fault& fault) { return (left -= fault.weight) <= 0; });
    (this->*chosen->happens)();
}

// ---- what can happen ----------------------------------------------------------------------------

void Life::worker_crashes() {
    any_host().end_worker(
        any_worker(), agent::WorkerExit{agent::WorkerExit::Killed{SIGSEGV, true}});
}

void Life::worker_fails() {
    any_host().end_worker(any_worker(), agent::WorkerExit{agent::WorkerExit::Exited{any(1, 3)}});
}

void Life::worker_succeeds() {
    any_host().end_worker(any_worker(), agent::WorkerExit{agent::WorkerExit::Exited{0}});
}

void Life::worker_ignores_the_polite_signal() {
    any_host().make_stubborn(any_worker());
}

void Life::worker_gets_stuck() {
    any_host().stick(any_worker());
}

void Life::all_workers_succeed() {
    cluster_.finish_workers();
}

void Life::agent_is_killed() {
    any_host().kill();
}

void Life::agent_is_stopped() {
    if (auto* host = any_whole_host()) host->stop_agent();
}

void Life::agent_is_continued() {
    any_host().continue_agent();
}

void Life::host_loses_power() {
    // A job of one node has no lease: only TCP finds the loss, a quarter of an hour later.
    if (cluster_.options().nodes.max > 1) any_host().switch_off();
}

void Life::host_sleeps() {
    if (auto* host = any_whole_host()) host->suspend();
}

void Life::host_wakes_up() {
    any_host().wake_up();
}

void Life::host_is_cut_off() {
    if (auto* host = any_whole_host()) host->cut();
}

void Life::host_is_healed() {
    any_host().heal();
}

void Life::path_to_server_is_cut() {
    auto* host = any_whole_host();
    if (host == nullptr) return;
    const auto* acting = cluster_.acting_server(host->run_id());
    if (acting == nullptr) return;
    const auto& server = acting->place();
    const int ways = any(1, 3);
    if ((ways & 1) != 0) cluster_.network().cut(host->name(), server);
    if ((ways & 2) != 0) cluster_.network().cut(server, host->name());
    cluster_.world().note(host->name() + " is cut from the server, ways " + std::to_string(ways));
}

void Life::path_between_hosts_is_cut() {
    auto* one = any_whole_host();
    auto* other = any_whole_host();
    if (one == nullptr || other == nullptr) return;
    cluster_.network().cut(one->name(), other->name());
    cluster_.world().note(one->name() + " does not get through to " + other->name());
}

void Life::connection_is_lost() {
    auto& host = any_host();
    // If it is also cut off, this looks the same as its death (known limit).
    const auto* server = cluster_.acting_server(host.run_id());
    const bool is_reachable =
        server != nullptr && cluster_.network().connects(host.name(), server->place());
    if (host.is_willing() && is_reachable) host.break_connection(one_in(2));
}

void Life::node_is_started() {
    if (node_count_ < most_nodes) start_node();
}

void Life::node_gets_a_signal() {
    auto& host = any_host();
    if (host.is_alive()) host.signal(one_in(4) ? SIGINT : SIGTERM);
}

void Life::node_is_drained() {
    auto& target = any_host();
    // Any node's agent forwards it, even that of the drained node.
    auto& asked = one_in(2) ? target : any_host();
    cluster_.world().note("drain " + target.name());
    drained_.insert(target.name());
    asked.command(agent::Agent::DrainCommanded{1, {target.name()}, !one_in(3), "ddprunctl"});
}

void Life::host_is_undrained() {
    const auto& name = any_host().name();
    cluster_.world().note("undrain " + name);
    any_host().command(agent::Agent::UndrainCommanded{1, {name}, "ddprunctl"});
}

void Life::job_is_resized() {
    // With a larger MIN the job would wait for nodes that are never started.
    const int min = any(1, cluster_.options().nodes.min);
    const control::NodeRange nodes{min, any(min, cluster_.options().nodes.max + 1)};
    cluster_.world().note("resize to " + control::describe(nodes));
    any_host().command(agent::Agent::ResizeCommanded{1, nodes, "ddprunctl"});
}

void Life::server_stops() {
    if (!cluster_.options().hosted_by.empty()) return;
    cluster_.world().note("server: stop");
    cluster_.server().pause();
}

void Life::server_continues() {
    if (!cluster_.options().hosted_by.empty()) return;
    cluster_.world().note("server: continue");
    cluster_.server().resume();
}

void Life::server_is_replaced() {
    if (!cluster_.options().hosted_by.empty()) return;
    // Sometimes the next server does not live long either.
    for (int lives = one_in(3) ? any(2, 4) : 1; lives > 0; --lives) {
        cluster_.world().note("server: kill and restart");
        cluster_.server().kill();
        cluster_.pass(any_pause());
        cluster_.server().restart();
        drained_.clear();
        // A job of one node has no lease, and no fence.
        const auto& options = cluster_.options();
        cluster_.checkers().on_daemon_replaced(
            cluster_.world().now(), options.nodes.max > 1 ? options.settings.lease : 24h);
        if (lives > 1) cluster_.pass(std::chrono::milliseconds{any(0, 1'000)});
    }
}

// ---- the end ------------------------------------------------------------------------------------

void Life::heal_everything() {
    for (auto* host : cluster_.hosts()) {
        host->heal();
        host->wake_up();
        host->continue_agent();
        host->let_go();
    }
    if (servers_ == Servers::voted) {
        cluster_.network().readmit(WitnessHost::place);
        return witness_is_started();
    }
    if (servers_ == Servers::elected) {
        cluster_.network().readmit(Etcd::place);
        cluster_.etcd().lose_answers(0);
        return etcd_comes_back();
    }
    if (cluster_.options().hosted_by.empty()) cluster_.server().resume();
}

/// Invariant 4: with enough healthy nodes a round forms within lease, grace and 5 s; a first round
/// may take the last call in addition.
std::string Life::come_to_rest() {
    const auto& settings = cluster_.options().settings;
    const auto bound =
        settings.lease + settings.grace + limits::drain_margin + settings.last_call_timeout;
    // Pauses from options, a node's pause between two attempts, and network delays.
    auto slack = settings.restart.longest_delay + cluster_.options().weather.slowest_resend +
                 cluster_.options().manners.slowest_spawn + 15s;
    // The last leader's key, and the wait for nodes that it may have left.
    if (servers_ != Servers::fixed) slack += 2 * limits::etcd_ttl + settings.lease;
    for (const std::string run_id : {"job", "other"})
        if (!cluster_.until([&] { return is_settled(run_id); }, bound + slack))
            return "no round of " + run_id + " forms";
    return {};
}

/// The job is over, has too few nodes, or runs a round with all its nodes.
bool Life::is_settled(const std::string& run_id) {
    std::vector<std::string> willing;
    for (const auto* host : cluster_.hosts())
        if (host->run_id() == run_id && host->is_willing() && may_take_part(*host))
            willing.push_back(host->name());
    const auto is_too_few = [&] {
        return static_cast<int>(willing.size()) < cluster_.options().nodes.min;
    };
    if (is_too_few()) return true;
    const auto* server = cluster_.acting_server(run_id);
    if (server == nullptr) return false;
    if (!server->is_up()) return true;
    const auto jobs = server->coordinator().status(cluster_.world().now());
    const auto job = std::find_if(
        jobs.rbegin(), jobs.rend(), [&](const auto& one) { return one.run_id == run_id; });
    if (job != jobs.rend())
        for (const auto& drained : job->drained_hosts) {
            const bool keeps_place =
                !drained_.contains(drained.host) &&
                std::any_of(job->nodes.begin(), job->nodes.end(), [&](const auto& node) {
                    return node.group_rank && node.host == drained.host;
                });
            if (!keeps_place) std::erase(willing, drained.host);
        }
    if (is_too_few()) return true;
    if (job == jobs.rend() || job->state != "running") return false;
    return std::all_of(job->nodes.begin(), job->nodes.end(), [&](const auto& node) {
        return !node.group_rank ||
               std::find(willing.begin(), willing.end(), node.host) != willing.end();
    });
}

/// After the last fault: workers that train end successfully, and then every job has to end.
std::string Life::come_to_an_end() {
    // The longest time for a lease, a drain, a last call and a wait for nodes, for a job and for
    // the job that a node begins after it was counted as lost.
    const auto end = cluster_.world().now() + 1h;
    while (!cluster_.is_done()) {
        if (cluster_.world().now() > end) return "the job does not end";
        cluster_.pass(1s);
        for (auto* host : cluster_.hosts())
            if (host->is_alive()) host->finish_training();
        if (!problem().empty()) return problem();
    }
    cluster_.pass(1s);
    if (cluster_.checkers().living_worker_count() > 0) return "a worker outlives its ddprun";
    return problem();
}

std::string Life::problem() {
    const auto& complaints = cluster_.checkers().complaints();
    return complaints.empty() ? drain_problem() : complaints.front();
}

/// A node of a drained host has a place only until it has left; each host has one node here.
std::string Life::drain_problem() {
    if (!is_draining_ || !cluster_.server().is_up()) return {};
    for (const auto& job : cluster_.server().coordinator().status(cluster_.world().now()))
        for (const auto& drained : job.drained_hosts)
            for (const auto& node : job.nodes)
                if (node.host == drained.host && drained_.contains(node.host) &&
                    node.state == "running" && !node.reason.starts_with("leaving: ") &&
                    !node.reason.starts_with("disconnected"))
                    return "drained host " + node.host + " has a place: " + node.reason;
    return {};
}

}  // namespace ddprun::sim
