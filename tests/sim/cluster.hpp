// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/checkers.hpp"
#include "tests/sim/etcd.hpp"
#include "tests/sim/host.hpp"
#include "tests/sim/network.hpp"
#include "tests/sim/server.hpp"
#include "tests/sim/witness_host.hpp"
#include "tests/sim/world.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::sim {

/// Machines with a `ddprun` each, a rendezvous server, and the network between them.
class Cluster {
public:
    /// What keeps the record of which server leads; there is no `server` then, unless it is `none`.
    enum class Engine : std::uint8_t { none, etcd, voters };

    struct Options {
        control::NodeRange nodes;
        int workers = 1;
        int restarts = 0;
        control::Settings settings;
        /// The host that serves the rendezvous; empty: a daemon elsewhere.
        std::string hosted_by;
        Engine engine = Engine::none;
        /// Where nodes vote: there is a witness.
        bool has_witness = false;
        Network::Weather weather;
        Host::Manners manners;
    };

    Cluster(std::uint64_t seed, Options options);

    World& world() { return world_; }
    Network& network() { return network_; }
    /// Requires: the server is not elected.
    Server& server() { return *server_; }
    Etcd& etcd() { return etcd_; }
    /// Up only if there is one.
    WitnessHost& witness() { return witness_; }
    /// The host whose elected server may act for this job; null: none now.
    Host* leader(const std::string& run_id = "job");
    /// The epoch of the leader in the election's record; 0: it has none.
    std::uint64_t recorded_epoch(const std::string& run_id);
    /// Another host whose server may act for the host's job; empty: none.
    std::string other_leader(const Host& host) const;
    /// The only server, or the elected one; null: none now.
    const Server* acting_server(const std::string& run_id = "job");
    Checkers& checkers() { return checkers_; }
    const Options& options() const { return options_; }
    bool is_elected() const { return options_.engine != Engine::none; }
    /// The hosts where a node finds its job, unless it knows the voters. The first of them creates
    /// the record.
    const std::vector<std::string>& typed_endpoints() const { return typed_endpoints_; }
    /// Whether the voters that are left cannot change the record any more.
    bool is_record_lost();
    /// Whether a node that does not know the voters would find them at an endpoint.
    bool are_voters_found();

    /// A machine joins the cluster and its `ddprun` is started.
    Host& start(const std::string& name, const std::string& run_id = "job");
    Host& host(const std::string& name) { return *hosts_.at(name); }
    std::vector<Host*> hosts();
    Host* host_at(const std::string& addr);
    RoundStore* store_at(const std::string& addr, std::uint16_t port);

    /// The newest job's state, as in /status; empty: no job yet.
    std::string job_state();
    int round();
    /// Whether the round runs and all of its workers have registered in its store.
    bool is_training();
    /// Whether every `ddprun` that was not killed has ended.
    bool is_done();
    /// Makes all workers end successfully.
    void finish_workers();

    /// Runs until the condition holds. Returns false when it does not within `longest`.
    bool until(const std::function<bool()>& condition, Duration longest);
    void pass(Duration length);

private:
    void step();

    World world_;
    Options options_;
    Network network_;
    Etcd etcd_;
    WitnessHost witness_{*this};
    Checkers checkers_;
    std::unique_ptr<Server> server_;
    /// `in_order_` has the order of their start; no two hosts have the same name.
    std::map<std::string, std::unique_ptr<Host>> hosts_;
    std::vector<Host*> in_order_;
    std::map<std::string, Host*> by_addr_;
    std::vector<std::string> typed_endpoints_;
};

}  // namespace ddprun::sim
