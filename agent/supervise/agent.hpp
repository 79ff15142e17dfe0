// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/plan/death_note.hpp"
#include "agent/report/cause_in_words.hpp"
#include "agent/report/job_report.hpp"
#include "agent/supervise/neighbours.hpp"
#include "agent/supervise/worker_group.hpp"
#include "rendezvous/base/backoff.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/control/trouble.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// One node of one job: joins, runs its workers of each round, tells what becomes of them, and
/// obeys (agent/README.md). Driven by agent_runner (sockets, processes) and tests/sim.
///
///   joining  --Assignment-->             starting   SpawnWorkers, CheckStore
///   starting --all spawned-->            running    Send Started
///   running  --all exited 0-->           succeeded  Send Succeeded; stays until Stop or JobResult
///   any      --worker failed-->          stopping   ExplainFailure, then Send Failed; where other
///                                                   nodes have ranks, first GiveNotice
///   any      --Stop, Lost, Signalled,
///              JobResult, fence, server gone-->  stopping
///   stopping --group ended-->            joining    Send Ready with a fresh store
///                                     or done       Finish
///
/// Two rules keep it small. What the server should know is compared with what it was told after
/// every event (`tell_server`), so a reconnect at any moment needs no case of its own. Why the
/// workers are being stopped is a set of facts (a result, a signal, a lost server), and what
/// follows is decided from them once, when the last process is gone (`after_group`).
///
/// Links are names the machine makes for its connections to the server; what comes from one that
/// is not current or being tried means nothing.
class Agent {
public:
    enum class Phase : std::uint8_t { joining, starting, running, succeeded, stopping, done };

    /// The words a person reads are in `describe`.
    using Trouble = control::Trouble;

    // ---- events ----

    struct Began {};
    /// Answers to OpenStore.
    struct StoreOpened {
        std::uint16_t port;
    };
    struct StoreFailed {
        std::string reason;
    };
    /// This node serves the rendezvous itself from now on.
    struct HostingStarted {};
    /// Answers to Connect; the server said hello, nothing of ours was written.
    struct LinkOpened {
        int link;
        std::string socket_addr;
    };
    struct LinkClosed {
        int link;
        Trouble trouble;
        std::string reason;
    };
    /// Nothing will ever come of connecting, e.g. this node must host and the port is taken.
    struct ConnectRefused {
        std::string reason;
    };
    struct Received {
        int link;
        control::ServerMessage message;
    };
    struct WorkerSpawned {
        int local_rank;
        int pid;
    };
    struct WorkerExited {
        int local_rank;
        WorkerExit exit;
    };
    /// Answer to ExplainFailure: what the worker left behind, and what its machine knows.
    struct FailureExplained {
        int round;
        int local_rank;
        /// From its error file; both empty without one.
        std::string message;
        std::string details;
        bool is_consequence;
        CauseInWords cause = {};
        /// Where the error file stays; empty: it does not.
        std::string error_file = {};
        /// Where its standard error is written to; empty: to no file.
        std::string log_file = {};
        std::optional<std::int64_t> unix_time = std::nullopt;
        control::WorkerFailure::OwnWords own_words = control::WorkerFailure::OwnWords::none;
    };
    struct RemainsCounted {
        int count;
    };
    /// Answers to CheckStore.
    struct StoreChecked {
        int round;
        /// Empty: it answered.
        std::string failure;
    };
    /// Answers to GiveNotice, whatever came of it.
    struct NoticeGiven {
        int round;
    };
    /// Another agent wants a vouch; each caller has a number of its own.
    struct PeerAsked {
        int caller;
        PeerVouch vouch;
    };
    /// Answers to Neighbours::Ask; empty: nobody was there in time.
    struct PeerAnswered {
        int ask;
        std::optional<PeerAnswer> answer;
    };
    /// SIGINT, SIGTERM, SIGHUP or SIGQUIT, sent to `ddprun`.
    struct Signalled {
        int signal;
    };
    struct DeadlinePassed {};
    using Event = std::variant<
        Began,
        StoreOpened,
        StoreFailed,
        HostingStarted,
        LinkOpened,
        LinkClosed,
        ConnectRefused,
        Received,
        WorkerSpawned,
        WorkerExited,
        FailureExplained,
        RemainsCounted,
        StoreChecked,
        NoticeGiven,
        PeerAsked,
        PeerAnswered,
        Signalled,
        DeadlinePassed>;

    // ---- effects ----

    /// A fresh keyspace on a port of its own, beside those that are open.
    struct OpenStore {
        bool operator==(const OpenStore&) const = default;
    };
    /// Let its clients finish reading what was sent, then close.
    struct CloseStore {
        std::uint16_t port;
        bool operator==(const CloseStore&) const = default;
    };
    /// One attempt. Answered by LinkOpened, LinkClosed or ConnectRefused.
    struct Connect {
        int link;
        /// The question who hosts is asked anew: no server has ever welcomed this node. Afterwards
        /// a server of its own would know nothing of the job.
        bool may_host;
        /// How long nobody has answered at the endpoint.
        Duration unanswered_for;
        bool operator==(const Connect&) const = default;
    };
    struct Send {
        int link;
        control::AgentMessage message;
        bool operator==(const Send&) const = default;
    };
    /// Flush, then shut down; nothing more is heard from this link.
    struct CloseLink {
        int link;
        bool operator==(const CloseLink&) const = default;
    };
    /// Every worker of this node, in order of local rank.
    struct SpawnWorkers {
        control::Assignment assignment;
        std::string incarnation;
        /// Numeric, where the other nodes reach this one.
        std::string node_addr;
        bool operator==(const SpawnWorkers&) const = default;
    };
    /// One connection to the round's store, within limits::store_reachability_timeout.
    struct CheckStore {
        int round;
        Endpoint store;
        bool operator==(const CheckStore&) const = default;
    };
    /// To the workers of other nodes, through the round's store: before anybody is signalled
    /// because of these deaths. Within limits::death_notice_timeout.
    struct GiveNotice {
        int round;
        DeathNote note;
        bool operator==(const GiveNotice&) const = default;
    };
    struct ExplainFailure {
        int round;
        int local_rank;
        bool operator==(const ExplainFailure&) const = default;
    };
    /// The round's last process is gone and its failure explained: its error files are of no use
    /// any more.
    struct CleanUpRound {
        int round;
        bool operator==(const CleanUpRound&) const = default;
    };
    /// And then close; empty: close at once.
    struct AnswerPeer {
        int caller;
        std::optional<PeerAnswer> answer;
        bool operator==(const AnswerPeer&) const = default;
    };
    /// When the keeper is to kill this node.
    struct SetFence {
        std::optional<Instant> ends_at;
        bool operator==(const SetFence&) const = default;
    };
    /// To the server in this process: end the job for everybody.
    struct InterruptServer {
        int signal;
        std::string reason;
        bool operator==(const InterruptServer&) const = default;
    };
    /// For the log, each about something a person waits for or wonders about.
    struct NoteWaiting {
        Trouble trouble;
        std::string reason;
        Duration waited;
        bool operator==(const NoteWaiting&) const = default;
    };
    struct NoteStandby {
        std::string reason;
        bool operator==(const NoteStandby&) const = default;
    };
    struct NoteStopping {
        int round;
        std::string reason;
        bool operator==(const NoteStopping&) const = default;
    };
    struct NoteServerLost {
        std::string reason;
        bool operator==(const NoteServerLost&) const = default;
    };
    struct NoteServerBack {
        bool operator==(const NoteServerBack&) const = default;
    };
    /// A message about a round that is over.
    struct NoteStale {
        std::string what;
        bool operator==(const NoteStale&) const = default;
    };
    struct NoteStuck {
        std::vector<int> local_ranks;
        int remains;
        bool operator==(const NoteStuck&) const = default;
    };
    /// The last effect of all.
    struct Finish {
        JobReport report;
        bool operator==(const Finish&) const = default;
    };
    using Effect = std::variant<
        OpenStore,
        CloseStore,
        Connect,
        Send,
        CloseLink,
        SpawnWorkers,
        CheckStore,
        GiveNotice,
        ExplainFailure,
        CleanUpRound,
        Neighbours::Ask,
        AnswerPeer,
        SetFence,
        InterruptServer,
        NoteWaiting,
        NoteStandby,
        NoteStopping,
        NoteServerLost,
        NoteServerBack,
        NoteStale,
        NoteStuck,
        Finish,
        // The group's orders to processes, as they are.
        WorkerGroup::SignalLeader,
        WorkerGroup::SignalSession,
        WorkerGroup::KillSession,
        WorkerGroup::CancelSpawns,
        WorkerGroup::CountRemains,
        WorkerGroup::SignalRemains,
        WorkerGroup::KillRemains>;

    /// `random` is used for pauses and new nonces and must outlive the machine.
    Agent(AgentConfig config, control::Node node, std::uint16_t peer_port, Random& random);

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    Phase phase() const { return phase_; }
    const control::Node& node() const { return node_; }
    /// Of the current round, or the last one.
    const std::optional<control::Assignment>& assignment() const { return assignment_; }
    /// The current round's workers, if they are being spawned or not all gone.
    const WorkerGroup* group() const { return group_ ? &*group_ : nullptr; }
    /// Messages about old rounds, or that make no sense now.
    std::uint64_t stale_count() const { return stale_count_; }

private:
    /// What has happened in this node's current round that the server must know.
    struct Facts {
        bool has_started = false;
        bool has_succeeded = false;
        bool has_failed = false;
        bool is_ready = false;
        bool is_leaving = false;
    };
    /// A death that may be reported: not yet explained, or inside its settle window.
    struct Death {
        int local_rank;
        std::optional<Instant> settle_until;
        std::optional<Instant> explain_until;
    };
    /// The node ends without a result of the server.
    struct Ending {
        control::Outcome outcome;
        int exit_code;
        std::string reason;
    };

    // Connection to the server.
    void connect(Instant now, std::vector<Effect>& out);
    void on_link_opened(const LinkOpened& opened, Instant now, std::vector<Effect>& out);
    void on_link_closed(const LinkClosed& closed, Instant now, std::vector<Effect>& out);
    void on_attempt_failed(const LinkClosed& closed, Instant now, std::vector<Effect>& out);
    void greet(Instant now, std::vector<Effect>& out);
    void on_admitted(std::vector<Effect>& out, Instant now);
    void on_heartbeat_ack(const control::HeartbeatAck& ack, std::vector<Effect>& out);
    void tell_server(Instant now, std::vector<Effect>& out);
    void send(control::AgentMessage message, std::vector<Effect>& out);
    void drop_links(std::vector<Effect>& out);
    void heartbeat(Instant now, std::vector<Effect>& out);
    void discard_fresh_store(std::vector<Effect>& out);
    void open_store(std::vector<Effect>& out);
    std::string node_addr() const;
    Duration pause_before_next_attempt(Instant now);
    control::Join join() const;
    control::Resume resume(Instant now) const;

    // Messages.
    void on_message(control::ServerMessage message, Instant now, std::vector<Effect>& out);
    void on_assignment(control::Assignment next, Instant now, std::vector<Effect>& out);
    void on_stop(const control::Stop& stop, Instant now, std::vector<Effect>& out);
    void on_refused(const control::Refused& refused, Instant now, std::vector<Effect>& out);
    void on_lost(const control::Lost& lost, Instant now, std::vector<Effect>& out);
    void note_stale(std::string what, std::vector<Effect>& out);

    // Workers.
    void tell_group(WorkerGroup::Event event, Instant now, std::vector<Effect>& out);
    void on_worker_exited(WorkerExited exited, Instant now, std::vector<Effect>& out);
    void on_worker_failed(int local_rank, Instant now, std::vector<Effect>& out);
    void explain(int local_rank, Instant now, std::vector<Effect>& out);
    void on_explained(FailureExplained explained, Instant now, std::vector<Effect>& out);
    void report_failure(control::WorkerFailure failure);
    void on_store_checked(StoreChecked checked, Instant now, std::vector<Effect>& out);
    void give_notice_and_stop(int rank, Instant now, std::vector<Effect>& out);
    void stop_workers(int signal, Duration grace, Instant now, std::vector<Effect>& out);
    void kill_workers(Instant now, std::vector<Effect>& out);
    void after_group(Instant now, std::vector<Effect>& out);
    void clean_up_round(std::vector<Effect>& out);
    control::WorkerFailure failure_of(int local_rank) const;
    int rank_of(int local_rank) const;

    // Neighbours.
    void meet_neighbours(Instant now, std::vector<Effect>& out);
    void ask_neighbours(Instant now, std::vector<Effect>& out);
    void on_peer_answered(const PeerAnswered& answered, Instant now, std::vector<Effect>& out);
    void tell_started(std::vector<Effect>& out);
    std::optional<Instant> vouch_at() const;

    // Ends.
    void on_signal(int signal, Instant now, std::vector<Effect>& out);
    void end(Ending ending, Instant now, std::vector<Effect>& out);
    void finish(std::vector<Effect>& out);
    void rejoin(Instant now, std::vector<Effect>& out);
    void wait_for_result(Instant now, std::vector<Effect>& out);
    std::string leave_reason() const;
    Ending server_gone(const std::string& what) const;
    JobReport report() const;
    std::vector<control::Consequence> consequences() const;

    void on_deadline(Instant now, std::vector<Effect>& out);
    void fall(std::string reason, Instant now, std::vector<Effect>& out);
    void note_next_round(std::vector<Effect>& out);
    void update_fence(std::vector<Effect>& out);
    std::optional<Instant> fence() const;
    std::optional<Instant> standing_ends_at() const;
    Instant own_word_ends_at() const;
    bool has_standing(Instant now) const;
    bool has_vouchers() const;
    std::string silence(Instant now) const;
    std::optional<Instant> admission_ends_at() const;
    std::optional<Instant> patience_ends_at() const;
    bool has_workers() const { return group_ && !group_->is_over(); }
    bool has_lease() const;
    void check() const;

    AgentConfig config_;
    control::Node node_;
    std::uint16_t peer_port_;
    Random& random_;
    Phase phase_ = Phase::joining;

    // Connection to the server.
    int last_link_ = 0;
    std::optional<int> link_;     ///< what is sent goes here
    std::optional<int> attempt_;  ///< being connected, beside `link_` when that is silent
    bool is_admitted_ = false;    ///< `link_` has answered our join or resume
    std::string socket_addr_;
    std::optional<Instant> connect_at_;
    Backoff backoff_;
    std::optional<control::Welcome> welcome_;
    std::optional<Instant> greeted_at_;
    std::optional<Instant> unreachable_since_;
    /// By a server that was reached, and only refused for now.
    Instant told_to_wait_at_{};
    std::optional<Instant> refused_since_;
    /// Why the server lets this node wait, as long as nothing else has been heard.
    std::optional<std::string> refusal_;
    Trouble last_trouble_ = Trouble::no_answer;
    std::string last_trouble_reason_;
    std::optional<Instant> note_at_;
    bool is_hosting_ = false;
    bool was_welcomed_ = false;
    bool is_known_lost_ = false;  ///< NoteServerLost was said

    // Lease.
    struct Beat {
        std::uint64_t seq;
        Instant at;
    };
    std::uint64_t last_seq_ = 0;
    std::deque<Beat> unanswered_;
    std::optional<Instant> heartbeat_at_;
    Instant acknowledged_at_{};
    std::optional<Instant> told_fence_;

    // Neighbours of the round.
    Neighbours neighbours_;
    /// As many of them as the server was told are in reach in this round.
    int told_reach_ = 0;
    std::optional<Instant> asked_neighbours_at_;

    // Stores.
    bool is_opening_store_ = false;
    std::optional<std::uint16_t> fresh_store_;  ///< open, its keyspace never used
    std::optional<std::uint16_t> used_store_;   ///< of the current round

    // Round.
    std::optional<control::Assignment> assignment_;
    std::optional<WorkerGroup> group_;
    Facts facts_;
    Facts told_;
    std::optional<Death> death_;
    std::optional<control::WorkerFailure> failure_;
    std::optional<control::Cause::Kind> failure_kind_;
    Instant failed_at_{};
    /// A death is being told to other nodes' workers: until then nobody is stopped because of it.
    std::optional<Instant> notice_until_;
    /// Every worker of the round that ended badly, the first failure first.
    std::vector<control::Consequence> fallen_;
    /// It has ended; its error files may still be needed for the explanation.
    std::optional<int> round_to_clean_;
    std::optional<control::WorkerFailure> first_consequence_;
    std::size_t explained_count_ = 0;
    /// Those that a signal of ours ended.
    std::vector<control::Consequence> stopped_;
    int stop_signal_ = 0;  ///< what the workers of this round were first stopped with

    // Why it ends.
    std::optional<control::JobResult> result_;
    std::optional<Ending> ending_;
    std::optional<int> leave_signal_;
    bool is_lost_ = false;
    bool is_fenced_ = false;
    std::optional<Instant> result_deadline_;
    /// Why the last round ended, and when it is said what this node waits for since.
    std::string stop_reason_;
    /// It was for somebody who died of another's death: nobody had told that one yet.
    bool is_stop_for_consequence_ = false;
    std::optional<Instant> next_round_note_at_;
    std::uint64_t stale_count_ = 0;
};

std::string describe(const Agent::Event& event);
std::string describe(const Agent::Effect& effect);
std::string_view describe(Agent::Trouble trouble);
std::string_view name_of(Agent::Phase phase);

/// As control messages say it.
control::WorkerEnd to_worker_end(const WorkerExit& exit);

}  // namespace ddprun::agent
