// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/cluster.hpp"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::sim {

/// The random life of one cluster: nodes join, faults of all kinds happen at random moments, and
/// finally all faults are healed and every job has to end. Everything follows from the seed.
class Life {
public:
    /// Which server serves: a fixed one (a daemon, or that of the first node), or the one elected
    /// by etcd, or by the job's own nodes.
    enum class Servers : std::uint8_t { fixed, elected, voted };

    explicit Life(std::uint64_t seed, Servers servers = Servers::fixed);

    /// Runs the life to its end. Empty, or the violation.
    std::string play();
    /// The last lines of its record.
    std::string tail() { return cluster_.world().tail(60); }

private:
    /// The faults, and the weight of each.
    struct Fault {
        int weight;
        void (Life::*happens)();
    };
    static const std::vector<Fault>& fixed_faults();
    static const std::vector<Fault>& draining_faults();
    static const std::vector<Fault>& elected_faults();
    static const std::vector<Fault>& calm_faults();
    static const std::vector<Fault>& voted_faults();
    static const std::vector<Fault>& witnessed_faults();
    const std::vector<Fault>& faults() const;

    Cluster::Options given_options(std::uint64_t seed);
    Cluster::Options elected_options(std::uint64_t seed);
    Cluster::Options voted_options(std::uint64_t seed);
    Cluster::Options options(std::uint64_t seed);
    std::string play_calm();
    int any(int low, int high) { return std::uniform_int_distribution<int>{low, high}(dice_); }
    bool one_in(int count) { return any(1, count) == 1; }
    Duration any_pause();
    std::string pass_a_pause();
    bool can_elect();
    Host& any_host();
    int any_worker() { return any(0, cluster_.options().workers - 1); }
    /// A host whose silence would not look like its death; null if the random choice is another.
    Host* any_whole_host();
    void start_node();
    void do_something();

    void worker_crashes();
    void worker_fails();
    void worker_succeeds();
    void worker_ignores_the_polite_signal();
    void worker_gets_stuck();
    void all_workers_succeed();
    void agent_is_killed();
    void agent_is_stopped();
    void agent_is_continued();
    void host_loses_power();
    void host_sleeps();
    void host_wakes_up();
    void host_is_cut_off();
    void host_is_healed();
    void path_to_server_is_cut();
    void path_between_hosts_is_cut();
    void connection_is_lost();
    void node_is_started();
    void node_gets_a_signal();
    void node_is_drained();
    void host_is_undrained();
    void job_is_resized();
    void server_stops();
    void server_continues();
    void server_is_replaced();

    // Used when servers are elected (life_elected.cpp).
    Host* leader();
    void hold_its_output(Host& host);
    void cut_from_etcd(const Host& host);
    void leader_is_killed();
    void leader_is_frozen();
    void leader_is_cut_from_etcd();
    void host_is_cut_from_etcd();
    void leader_gets_sigterm();
    void etcd_goes_away();
    void etcd_comes_back();
    void etcd_is_slow();
    void answers_of_etcd_are_lost();
    void etcd_is_away_for_a_moment();
    void leader_is_cut_from_etcd_for_a_moment();
    // Used when nodes vote (life_voted.cpp).
    void leader_is_cut_from_some();
    void witness_is_killed();
    void witness_is_started();
    void host_is_cut_from_witness();
    bool may_take_part(const Host& host);

    void heal_everything();
    std::string come_to_rest();
    std::string come_to_an_end();
    bool is_settled(const std::string& run_id);
    std::string drain_problem();
    std::string problem();

    Servers servers_;
    /// Only the leader changes.
    bool is_calm_;
    /// Nodes are drained, too.
    bool is_draining_;
    /// Hosts that the present server was asked to drain: an order that a server has not sent is not
    /// known to the next one.
    std::set<std::string> drained_;
    Random dice_;
    Cluster cluster_;
    bool has_two_jobs_ = false;
    int node_count_ = 0;
};

}  // namespace ddprun::sim
