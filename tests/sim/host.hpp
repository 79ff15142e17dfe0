// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent.hpp"
#include "rendezvous/client/client_session.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/wire/decoder.hpp"
#include "tests/sim/link.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::sim {

class Cluster;

/// The worker store of one round: the real Store behind real c10d bytes.
class RoundStore {
public:
    explicit RoundStore(World& world);

    void accept(const std::shared_ptr<Link>& link);
    void close();

private:
    struct Client {
        std::shared_ptr<Link> link;
        wire::Decoder decoder;
    };
    void received(ConnectionId id, const std::string& bytes);
    void perform(store::Store::Effect& effect);

    std::map<ConnectionId, Client> clients_;
    std::uint64_t next_client_ = 1;
    Driven<store::Store> driven_;
};

/// A made-up worker process: meets the others of its round in the store as a trainer would, then
/// works until it is told otherwise.
struct WorkerProcess {
    int local_rank = 0;
    int rank = 0;
    int pid = 0;
    control::Assignment assignment;
    std::shared_ptr<Link> link;
    std::unique_ptr<client::ClientSession> session;
    /// Everybody of its world has arrived.
    bool is_training = false;
    /// SIGTERM does nothing to it.
    bool is_stubborn = false;
};

/// One machine with a `ddprun` on it: the real Agent with its groups and workers; processes, ports
/// and the keeper are made up.
class Host {
public:
    Host(Cluster& cluster, std::string name, std::string addr, agent::AgentConfig config, int pid);
    ~Host();

    const std::string& name() const { return name_; }
    const std::string& addr() const { return addr_; }
    const agent::Agent& machine() const { return agent_.machine(); }
    bool is_alive() const { return is_alive_; }
    bool has_workers() const { return !workers_.empty(); }
    /// All workers live and have met those of the other nodes.
    bool is_training() const;
    const std::optional<agent::JobReport>& report() const { return report_; }

    void begin();
    /// It serves the rendezvous itself.
    void host_server() { is_hosting_ = true; }
    // What can happen to it.
    void end_worker(int local_rank, agent::WorkerExit exit);
    /// Its workers that have met the others end well.
    void finish_training();
    void signal(int signal);
    /// Agent killed; the keeper kills the workers and only then closes.
    void kill();
    /// No packet gets in or out.
    void cut();
    void heal();
    /// Its control connection breaks once.
    void break_connection();
    void make_stubborn(int local_rank);
    RoundStore* store(std::uint16_t port);

private:
    using Agent = agent::Agent;

    void perform(Agent::Effect& effect);
    void connect(int link);
    void received(int link, const std::string& bytes);
    void spawn(const Agent::SpawnWorkers& order);
    void start_worker(const Agent::SpawnWorkers& order, int local_rank);
    void meet_others(int local_rank);
    void continue_meeting(int local_rank, int pid, const std::string& bytes);
    void die(int local_rank, agent::WorkerExit exit);
    void check_store(const Agent::CheckStore& order);
    void note(const std::string& what);
    std::string worker_name(int local_rank) const {
        return name_ + "." + std::to_string(local_rank);
    }

    struct Control {
        std::shared_ptr<Link> link;
        control::ServerMessageDecoder decoder;
        int port = 0;
    };

    Cluster& cluster_;
    World& world_;
    std::string name_;
    std::string addr_;
    bool is_alive_ = true;
    bool is_cut_ = false;
    bool is_hosting_ = false;
    std::optional<Instant> broken_at_;
    int next_pid_ = 0;
    std::uint16_t next_port_ = 20'000;
    int next_client_port_ = 40'000;
    std::map<int, Control> links_;
    std::map<std::uint16_t, std::unique_ptr<RoundStore>> stores_;
    std::map<int, WorkerProcess> workers_;
    std::set<int> unspawned_;
    int spawning_round_ = -1;
    std::string incarnation_;
    std::optional<agent::JobReport> report_;
    Driven<Agent> agent_;
};

}  // namespace ddprun::sim
