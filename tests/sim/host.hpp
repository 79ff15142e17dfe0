// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent.hpp"
#include "agent/supervise/departure.hpp"
#include "agent/supervise/succession.hpp"
#include "rendezvous/client/client_session.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/wire/decoder.hpp"
#include "rendezvous/witness/leader_lease.hpp"
#include "tests/sim/link.hpp"
#include "tests/sim/server.hpp"
#include "tests/sim/voting.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::sim {

class Cluster;

/// The worker store of one round: the real Store, with real c10d bytes.
class RoundStore {
public:
    explicit RoundStore(World& world);

    void accept(const std::shared_ptr<Link>& link);
    void close();
    /// Its process is stopped, or continued.
    void pause() { driven_.pause(); }
    void resume() { driven_.resume(); }

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

/// A simulated worker process: meets the others of its round in the store as a trainer would, then
/// works until it is stopped.
struct WorkerProcess {
    int local_rank = 0;
    int rank = 0;
    int pid = 0;
    control::Assignment assignment;
    std::shared_ptr<Link> link;
    std::unique_ptr<client::ClientSession> session;
    /// All workers of its world have arrived.
    bool is_training = false;
    /// It ignores SIGTERM.
    bool is_stubborn = false;
    /// It is inside an endless system call: even SIGKILL has no effect.
    bool is_stuck = false;
    /// Whether its agent expects it to end.
    bool was_signalled = false;
    bool was_killed = false;
    /// The next step, and the worker's state for saves.
    std::uint64_t step = 0;
    agent::RankSave save;
    /// It waits for the next round: the last step in its state, and whether that is complete.
    std::optional<control::KeptWorker> held;
    /// The last step of which it has the state.
    std::optional<std::uint64_t> committed;
};

/// One machine with a `ddprun` on it: the real Agent with its groups and workers; processes, ports
/// and the keeper are simulated.
class Host {
public:
    /// Durations of its workers' phases, random each time.
    struct Manners {
        Duration slowest_spawn = std::chrono::milliseconds{1};
        /// The longest time from a worker's start until it registers in the store.
        Duration slowest_start = std::chrono::milliseconds{5};
        /// The longest time from a signal to a worker's end.
        Duration slowest_end = std::chrono::milliseconds{2};
        /// The average duration of its workers' steps, each half more or less; zero: they take no
        /// steps.
        Duration step{};
        /// Its workers can be held instead of stopped.
        bool can_hold = false;
    };

    Host(
        Cluster& cluster,
        std::string name,
        std::string addr,
        agent::AgentConfig config,
        int pid,
        Manners manners);
    ~Host();

    const std::string& name() const { return name_; }
    const std::string& addr() const { return addr_; }
    const std::string& run_id() const { return run_id_; }
    const agent::Agent& machine() const { return agent_.machine(); }
    bool is_alive() const { return is_alive_; }
    /// Whether its `ddprun` runs, and is neither stopped nor ending.
    bool is_willing() const;
    bool has_workers() const { return !workers_.empty(); }
    /// Whether all workers run and have met those of the other nodes.
    bool is_training() const;
    const std::optional<agent::JobReport>& report() const { return report_; }

    /// Whether its process has ended by itself. One that is no candidate ends with its report.
    bool has_left() const { return report_ && (!candidate_ || candidate_->has_left); }

    void begin();
    /// Makes it serve the rendezvous itself.
    void host_server() { is_hosting_ = true; }
    // Makes its server one of several that an election chooses from (host_election.cpp).
    void become_candidate();
    /// Null: it has no server of its own.
    Server* own_server();
    bool is_leading() const;
    /// Null: its process has ended, or it has none.
    const Voting* voter() const;
    /// Called after each event.
    void look_at_own_server();
    // Faults and events.
    void end_worker(int local_rank, agent::WorkerExit exit);
    /// Its workers that have registered end successfully.
    void finish_training();
    void signal(int signal);
    /// Its agent gets a command of `ddprunctl`.
    void command(agent::Agent::Event event);
    /// The agent is killed; the keeper kills the workers and only then closes the connection.
    void kill();
    /// The machine loses its power: nothing is closed, and no peer is notified.
    void switch_off();
    /// The agent is stopped, or continued; its keeper and its workers run on.
    void stop_agent();
    void continue_agent();
    /// The whole machine is suspended, or wakes up: its processes only notice the time that passed.
    void suspend();
    void wake_up();
    /// Cuts the host off: no packet gets in or out.
    void cut();
    /// Makes its network work again completely.
    void heal();
    /// Breaks its control connection once: reset for both sides, or at first only for its own.
    void break_connection(bool for_both = true);
    /// Whether silence now looks the same as its death (known limit of the coordinator).
    bool has_just_broken() const;
    void make_stubborn(int local_rank);
    /// Makes its worker unkillable, until it is released.
    void stick(int local_rank);
    void let_go();
    RoundStore* store(std::uint16_t port);
    /// A call of another host's process at its peer port has arrived.
    void accept_peer(const std::shared_ptr<Link>& link);

private:
    using Agent = agent::Agent;

    void perform(Agent::Effect& effect);
    void perform(witness::LeaderLease::Effect& effect);
    void connect(const Agent::Connect& order);
    /// Null: there is no server at this place any more.
    void open(int link, Server* server, const std::string& place);
    void give_up_link(int link, Agent::ConnectError error, const std::string& reason);
    void received(int link, const std::string& bytes);
    void spawn(const Agent::SpawnWorkers& order);
    void start_worker(const Agent::SpawnWorkers& order, int local_rank);
    void enter_round(const Agent::SpawnWorkers& order, int local_rank);
    void hold_worker(const agent::WorkerGroup::HoldWorker& order);
    void keep_worker(const Agent::SpawnWorkers& order, int local_rank);
    void meet_others(int local_rank);
    void continue_rendezvous(int local_rank, int pid, const std::string& bytes);
    void die(int local_rank, agent::WorkerExit exit);
    bool reaches(const Endpoint& store) const;
    void check_store(const Agent::CheckStore& order);
    void give_notice(const Agent::GiveNotice& order);
    void take_step(int local_rank);
    void ask_whether_to_save(int local_rank);
    std::vector<agent::RankSave> saves() const;
    void show_saves();
    void show_save(const Agent::ShowSave& order);
    void ask_peer(const agent::Neighbours::Ask& ask);
    void end_ask(int id, std::optional<agent::PeerAnswer> answer);
    void answer_peer_line(int caller, const std::string& line);
    void answer_peer(const Agent::AnswerPeer& answer);
    void note(const std::string& what);
    /// Done by this machine, so not while it is suspended.
    void later(Duration delay, std::function<void()> action);
    void later_by_worker(int local_rank, Duration delay, std::function<void(WorkerProcess&)>);
    Duration up_to(Duration longest, Duration shortest);
    void kill_process(int local_rank, int signal, Duration delay);
    void end_everything();
    void pause_agent();
    void resume_agent();
    void resume_candidate();
    void post_to_agent(std::function<void()> action);
    void open_server();
    void seek(int link, bool is_first_try);
    bool may_campaign() const;
    void note_succession();
    void find_witness();
    void ask_engine(const witness::LeaderLease::Ask& ask);
    control::AgentMessage with_record(control::AgentMessage message) const;
    void change_voters(std::uint64_t epoch, std::vector<control::VoterPlace> voters);
    void find_voters(std::size_t asked);
    void open_sought(Host* leader);
    void fail_sought(const std::string& reason);
    bool is_job_over() const;
    agent::Departure::Facts departure_facts() const;
    void depart(agent::Departure::Step step);
    void watch_leader();
    void leave();
    void set_fence(std::optional<Instant> ends_at);
    void watch_fence();
    std::string worker_name(int local_rank) const {
        return name_ + "." + std::to_string(local_rank);
    }

    struct Control {
        std::shared_ptr<Link> link;
        control::ServerMessageDecoder decoder;
        int port = 0;
        /// The server has sent hello.
        bool is_greeted = false;
        /// Whether the endpoint is known.
        bool is_opened = false;
    };
    struct Candidate {
        using Lease = witness::LeaderLease;

        Candidate(World& world, Lease machine, Driven<Lease>::Perform perform)
            : lease(world, std::move(machine), std::move(perform)) {}

        Driven<Lease> lease;
        std::unique_ptr<Server> server;
        /// Null: etcd keeps the record.
        std::unique_ptr<Voting> voting;
        /// The number of the last request for other voters.
        int voters_turn = 0;
        /// The attempt that waits for the election's result.
        int sought = 0;
        /// The typed endpoint that is asked next for the voters.
        std::size_t next_place = 0;
        /// The last search has found no leader: the job may have other voters by now.
        bool has_found_none = false;
        /// Set when it leaves once its server has stepped down; true: the job is over.
        std::optional<bool> leaving;
        agent::Departure departure{true};
        bool was_idle = true;
        /// Its server was elected by voters, after an end was recorded.
        bool is_successor = false;
        agent::Succession succession;
        bool is_interrupted = false;
        bool has_left = false;
    };

    Cluster& cluster_;
    World& world_;
    std::string name_;
    std::string addr_;
    std::string run_id_;
    Manners manners_;
    bool is_alive_ = true;
    bool is_ending_ = false;
    bool is_stopped_ = false;
    bool is_asleep_ = false;
    /// Actions that wait until the machine wakes up.
    std::vector<std::function<void()>> delayed_;
    /// The fence as the keeper has it.
    std::optional<Instant> fence_;
    bool is_hosting_ = false;
    std::optional<Instant> broken_at_;
    int next_pid_ = 0;
    /// Of its `ddprun`.
    Nonce nonce_;
    std::uint16_t next_port_ = 20'000;
    int next_client_port_ = 40'000;
    std::map<int, Control> links_;
    std::map<int, std::shared_ptr<Link>> asks_;
    std::map<int, std::shared_ptr<Link>> peer_callers_;
    int last_peer_caller_ = 0;
    std::map<std::uint16_t, std::unique_ptr<RoundStore>> stores_;
    std::map<int, WorkerProcess> workers_;
    std::set<int> unspawned_;
    int spawning_round_ = -1;
    std::string incarnation_;
    /// The save point in the pages of its workers.
    std::optional<control::SavePoint> save_;
    Instant save_wait_ends_at_{};
    std::optional<agent::JobReport> report_;
    std::unique_ptr<Candidate> candidate_;
    Driven<Agent> agent_;
};

}  // namespace ddprun::sim
