// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/supervise/agent_interface.hpp"
#include "agent/supervise/ending.hpp"
#include "agent/supervise/failure_report.hpp"
#include "agent/supervise/fence.hpp"
#include "agent/supervise/node_round.hpp"
#include "agent/supervise/node_stores.hpp"
#include "agent/supervise/promise.hpp"
#include "agent/supervise/server_link.hpp"
#include "rendezvous/base/random.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

/// One node of one job: joins, runs its workers of each round, reports what becomes of them, and
/// follows the server's orders (agent/README.md). Driven by agent_runner (sockets, processes) and
/// tests/sim. Events and effects: AgentInterface.
///
///   joining   --Assignment-->          starting    SpawnWorkers, CheckStore
///   joining   --Signalled-->           joining     Send Leave; done with a result or without
///   starting, running --Signalled, and
///      the workers save before-->      same        Send Notice; leaves when it is over
///   joining   --Lost-->                joining     joins under a new nonce
///   starting  --all spawned-->         running     Send Started
///   running   --all exited 0-->        succeeded   Send Succeeded
///   starting, running --failure-->     stopping    ExplainFailure, then Send Failed; where the
///                                                  round has other ranks, GiveNotice before
///   starting, running --fence-->       stopping    KillSession
///   starting, running, succeeded
///      --Stop, Lost, Signalled-->      stopping    the group's signals
///   stopping  --group ended-->         joining     Send Ready with a fresh store
///   any       --JobResult, Ending-->   stopping, and without workers done: Finish
///
/// Its parts decide what is theirs: `ServerLink` the connection, `Fence` until when the ranks are
/// this node's, `WorkerGroup` the processes, `FailureReport` which worker failed first. Two rules
/// keep the rest small. What is to be reported is compared with what was reported to the server
/// after every event (`report_to_server`), so a reconnect at any moment needs no case of its own.
/// Why the workers are being stopped is a set of facts (an ending, a signal, a lost membership),
/// and what follows is decided from them once, when the last process is gone (`after_group`).
class Agent : public AgentInterface {
public:
    enum class Phase : std::uint8_t { joining, starting, running, succeeded, stopping, done };

    /// `random` is used for pauses and new nonces and must outlive the machine.
    Agent(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    Phase phase() const { return phase_; }
    const control::Node& node() const { return node_; }
    /// The current round's workers, if they are being spawned or not all gone.
    const WorkerGroup* group() const { return round_ && round_->group ? &*round_->group : nullptr; }
    /// Of the current round, or the last one of this node; null: it has had none.
    const control::Assignment* assignment() const { return round_ ? &round_->assignment : nullptr; }
    /// Empty before a server has welcomed this node.
    std::string incarnation() const;
    /// Why this node stops, or what it waits for; may be empty.
    std::string reason() const;
    /// The server has this node.
    bool is_connected() const { return link_.is_admitted(); }
    /// Of the protocol that both speak, if it has.
    int server_version() const { return link_.version(); }
    /// What ends whatever is commanded. A node that leaves alone can still be ordered to end the
    /// job.
    enum class Fate : std::uint8_t { open, node_ends, job_ends };
    Fate fate() const;
    Instant began_at() const { return began_at_; }
    /// When the current phase began.
    Instant phase_began_at() const { return phase_began_at_; }
    /// Messages about old rounds, or that make no sense now.
    std::uint64_t stale_count() const { return stale_count_; }

private:
    using Effects = std::vector<Effect>;

    void on_message(control::ServerMessage message, Instant now, Effects& out);
    bool follows(std::uint64_t epoch, Instant now, Effects& out);
    void on_assignment(control::Assignment next, Instant now, Effects& out);
    void begin_round(control::Assignment next, Instant now, Effects& out);
    void begin_round_without_workers(control::Assignment next, Effects& out);
    void on_stop(const control::Stop& stop, Instant now, Effects& out);
    bool is_noted(const control::Stop& stop) const;
    Duration signal_after(const control::Cause& cause) const;
    void on_result(control::JobResult result, Instant now, Effects& out);
    void on_lost(const control::Lost& lost, Instant now, Effects& out);
    void on_worker_exited(WorkerExited exited, Instant now, Effects& out);
    void on_store_checked(StoreChecked checked, Instant now, Effects& out);
    void on_store_waited(StoreWaited waited, Effects& out);
    void find_store_clients(int round, Effects& out);
    void on_store_clients_found(control::StoreClients clients, Effects& out);
    void on_peer_answered(const PeerAnswered& answered, Instant now, Effects& out);
    void on_signal(const Signalled& signalled, Instant now, Effects& out);
    void on_stop_commanded(StopCommanded stop, Instant now, Effects& out);
    void end_job_instead(NodeLeaving::JobEnd command, Duration grace, Instant now, Effects& out);
    void pass_on(int id, control::AgentMessage message, Effects& out);
    void on_drain_order(const control::DrainOrder& order, Instant now, Effects& out);
    void on_deadline(Instant now, Effects& out);
    bool is_saved_before(const Signalled& signalled) const;
    void give_notice(NodeNotice notice, Instant now, Effects& out);
    void withdraw_proposal(Effects& out);
    bool is_ending_as_saved() const;
    Duration grace_left(Instant now) const;
    std::optional<control::SaveReport> save_report() const;
    void end_notice(const std::string& reason, Instant now, Effects& out);
    void on_save_at(const control::SaveAt& order, Instant now, Effects& out);
    void on_notice_over(const control::NoticeOver& over, Instant now, Effects& out);
    void on_allocation_ending(Instant now, Effects& out);
    void begin_watch(Instant now);
    void look_at_workers(Instant now, Effects& out);
    void on_workers_seen(WorkersSeen seen, Instant now, Effects& out);
    void on_hang_found(control::HangFound found, Instant now, Effects& out);

    void check_health(CheckHealth::Reason reason, Effects& out);
    void check_health_after_round(Effects& out);
    void on_health_checked(HealthChecked checked, Instant now, Effects& out);

    void notify_link(ServerLink::Event event, Instant now, Effects& out);
    void notify_group(WorkerGroup::Event event, Instant now, Effects& out);
    void notify_failures(FailureReport::Event event, Instant now, Effects& out);
    void report_to_server(Instant now, Effects& out);
    void report_started(Effects& out);
    void report_progress(Instant now, Effects& out);
    void report_notice(Instant now, Effects& out);
    void report_save(Effects& out);
    void update_keeper(Effects& out);
    void greet(Instant now, Effects& out);
    void send(control::AgentMessage message, Effects& out);
    void probe_neighbours(Instant now, Effects& out);
    void note_stale(std::string what, Effects& out);
    void note_next_round(Effects& out);

    void stop_workers(const WorkerGroup::StopRequested& request, Instant now, Effects& out);
    void kill_workers(Instant now, Effects& out);
    void fence_self(std::string reason, Instant now, Effects& out);
    void after_group(Instant now, Effects& out);
    void clean_up_explained(Effects& out);
    void clean_up_round(Effects& out);
    void leave(NodeLeaving leaving, bool has_signalled_all, Instant now, Effects& out);
    void leave_round(Effects& out);
    void rejoin(Instant now, Effects& out);
    void wait_for_result(Instant now, Effects& out);
    void end(Ending ending, Instant now, Effects& out);
    void finish(Instant now, Effects& out);

    control::Leave leave() const;
    control::Join join() const;
    control::Resume resume(Instant now) const;
    FailureReport::Ends ends() const;
    JobReport report() const;
    /// This node's part of its round is over. Requires: round_.
    bool is_ready() const;
    bool has_workers() const { return group() != nullptr && !group()->is_over(); }
    bool is_current(int round) const { return round_ && round_->assignment.round == round; }
    std::optional<Instant> fence() const;
    std::optional<Instant> probe_at() const;
    std::optional<Instant> times_out_at() const;
    std::optional<Instant> look_at() const;
    std::optional<Instant> notice_at() const;
    std::optional<Instant> notice_ends_at() const;
    /// Until when a server that is not heard is waited for.
    std::optional<Instant> wait_ends_at() const;
    void check() const;

    AgentConfig config_;
    control::Node node_;
    std::uint16_t peer_port_;
    Random& random_;
    Phase phase_ = Phase::joining;
    Instant began_at_;
    Instant phase_began_at_;
    ServerLink link_;
    Fence fence_;
    Promise promise_;
    NodeStores stores_;
    std::optional<NodeRound> round_;
    FailureReport::Ends last_ends_;  ///< of the last round that is over
    std::optional<Ending> ending_;
    std::optional<NodeNotice> notice_;
    /// The last moment for an orderly stop before the end of the allocation, until there is a
    /// notice for that.
    std::optional<Instant> allocation_stop_at_;
    /// The workers of this or an earlier round call `should_save`.
    bool has_asking_workers_ = false;
    std::optional<NodeLeaving> leaving_;
    /// The health check runs, and why.
    std::optional<CheckHealth::Reason> checking_;
    /// The newest of the job, for a server that knows nothing of it.
    struct KeptGoodput {
        std::string incarnation;
        control::Goodput totals;
        Instant at;
    };
    std::optional<KeptGoodput> goodput_;
    bool is_lost_ = false;  ///< to the server, which counts this node no more
    bool is_hosting_ = false;
    std::string standby_reason_;  ///< of the server, while no round includes this node
    std::uint64_t stale_count_ = 0;
};

std::string_view name_of(Agent::Phase phase);

}  // namespace ddprun::agent
