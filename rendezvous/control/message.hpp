// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/causes.hpp"
#include "rendezvous/control/job_command.hpp"
#include "rendezvous/control/terms.hpp"
#include "rendezvous/control/voter_set.hpp"
#include "rendezvous/control/worker_order.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// The messages between agents and the rendezvous server, as values. codec.hpp encodes and decodes
/// them; the meaning of each field is in FORMAT.md.
///
/// All free text comes from a network peer: the codec limits its length and checks nothing else.
namespace ddprun::control {

// ---- a save that all ranks agree on -------------------------------------------------------------

/// The state of an agreement on a step to save. If a ballot has had two of these states, the later
/// one is valid.
enum class SaveState : std::uint8_t {
    proposed,   ///< a rank that reaches the step must wait
    cancelled,  ///< not agreed: ranks that have waited continue
    agreed,     ///< a rank that reaches the step must save
    saved,      ///< every rank has saved, and the job continues without the nodes that gave notice
    ending,     ///< every rank has saved, and the job ends for that reason
};

/// The step at or after which every rank of a round must save, once. Of two save points the one
/// with the higher ballot is valid.
struct SavePoint {
    int ballot = 1;
    std::uint64_t step = 0;
    SaveState state = SaveState::proposed;

    bool operator==(const SavePoint&) const = default;
};

/// What this node's ranks have done about a `SaveAt`. Sent once it is visible to all of them, and
/// after each change.
struct SaveReport {
    int round = 0;
    int ballot = 1;
    /// The highest step for which a rank had asked by the time when the proposal was visible to all
    /// of them.
    std::optional<std::uint64_t> asked = std::nullopt;
    /// The number of ranks that have begun to save, including those that have saved (`saved`).
    int saving = 0;
    int saved = 0;
    /// The number of ranks that no longer wait for the agreement.
    int declined = 0;
    /// The number of ranks that have exited with 0 without saving.
    int ended = 0;
    /// The lowest and highest steps that are being saved or were saved.
    std::optional<std::uint64_t> least = std::nullopt;
    std::optional<std::uint64_t> most = std::nullopt;
    /// The local rank of the first rank that has neither saved nor ended; ranks that have never
    /// asked come first.
    std::optional<int> waiting = std::nullopt;
    /// The rank in `waiting` has never asked.
    bool is_silent = false;

    bool operator==(const SaveReport&) const = default;
};

// ---- agent to server ----------------------------------------------------------------------------

struct Join {
    std::string run_id;
    /// Set only when the scheduler gives all nodes of the job the same one; otherwise the join
    /// refers to the running job of this id.
    std::optional<std::string> incarnation;
    Node node;
    NodeRange nodes;
    int nproc = 1;
    std::string role = "default";
    std::optional<int> node_rank;
    /// The address at which other nodes reach this node, if the option --local-addr was given; else
    /// empty.
    std::string addr;
    /// The agent's end of this connection, numeric with port: it shows whether a proxy is in
    /// between.
    std::string socket_addr;
    std::uint16_t store_port = 0;
    std::uint16_t peer_port = 0;
    int max_restarts = 0;
    Settings settings;
    /// The protocol versions that the sender supports (versions.hpp); empty: only the first.
    std::vector<int> versions;
    /// The newest leadership epoch that the sender has followed; 0: its server was not elected.
    std::uint64_t epoch = 0;
    /// The server is part of this node's `ddprun`, and ends with it.
    bool is_hosting = false;
    /// The lineage of the record that names the leader, if this node knows several voters of it
    /// (rendezvous/voters/).
    std::optional<Nonce> record = std::nullopt;

    bool operator==(const Join&) const = default;
};

struct Neighbour {
    Nonce nonce;
    std::string addr;
    std::uint16_t peer_port = 0;

    bool operator==(const Neighbour&) const = default;
};

/// A worker that keeps its process, and the state in it, over the end of a round.
struct KeptWorker {
    int local_rank = 0;
    /// The last step that its state contains completely; none: there is no such step.
    std::optional<std::uint64_t> committed = std::nullopt;
    /// Its state has not changed since that step.
    bool is_clean = false;

    bool operator==(const KeptWorker&) const = default;
};

/// The rank whose state all ranks of a round begin with, and the last step in that state.
struct StateSource {
    int rank = 0;
    std::uint64_t step = 0;

    bool operator==(const StateSource&) const = default;
};

/// A node's place in a round, and all data for its workers' environment.
struct Assignment {
    int round = 0;
    int restart_count = 0;
    int group_rank = 0;
    int group_world_size = 1;
    int rank_base = 0;
    int world_size = 1;
    int role_rank_base = 0;
    int role_world_size = 1;
    std::string master_addr;
    std::uint16_t master_port = 0;
    std::vector<Neighbour> neighbours;
    /// The last step that was completed in earlier rounds.
    std::optional<std::uint64_t> done_step = std::nullopt;
    /// Set when workers are kept; none: every worker is a new process.
    std::optional<StateSource> state = std::nullopt;

    bool operator==(const Assignment&) const = default;
};

enum class NodeState : std::uint8_t { starting, running, stopping, ready, succeeded };

/// The drained hosts of a job. A few nodes keep them for the next server; one that is to keep them
/// no longer gets an empty list.
struct Drained {
    /// How often the list had changed.
    int count = 1;
    std::vector<DrainedHost> hosts = {};

    bool operator==(const Drained&) const = default;
};

/// The agent's whole state, sent on every reconnect.
struct Resume {
    Join join;
    std::string incarnation;
    std::optional<Assignment> assignment;
    /// How many restarts of the job's budget were spent, as last reported to this agent.
    int spent = 0;
    NodeState state = NodeState::ready;
    std::optional<WorkerFailure> failure;
    /// Set with a failure, as in `Failed`.
    std::optional<Duration> age = std::nullopt;
    std::optional<Cause::Kind> kind = std::nullopt;
    /// As in `Started`.
    int reached = 0;
    /// The token from `Welcome`.
    std::optional<Nonce> token = std::nullopt;
    /// The newest save point of the assignment's round.
    std::optional<SavePoint> save = std::nullopt;
    /// What this node's ranks have done about that save point.
    std::optional<SaveReport> save_report = std::nullopt;
    /// The newest goodput that this node has, and its age when this message was written.
    std::optional<Goodput> goodput = std::nullopt;
    std::optional<Duration> goodput_age = std::nullopt;
    /// As last received.
    std::optional<Resized> resized = std::nullopt;
    std::optional<Drained> drained = std::nullopt;
    /// As in `Ready`.
    std::vector<KeptWorker> kept = {};
    /// As in `Started`.
    bool is_recoverable = false;

    bool operator==(const Resume&) const = default;
};

/// All workers of the round are gone or held, and a new store listens. Sent again when a held
/// worker has ended.
struct Ready {
    int round = 0;
    std::uint16_t store_port = 0;
    int nproc = 1;
    /// The held workers, which can be in the next round.
    std::vector<KeptWorker> kept = {};

    bool operator==(const Ready&) const = default;
};

struct Started {
    int round = 0;
    /// How many neighbours have answered on their `peer_port`. With two or more this node uses the
    /// short fence.
    int reached = 0;
    /// Some of the workers can be held: this node may need more time to be ready. Sent again when
    /// the first one can.
    bool is_recoverable = false;

    bool operator==(const Started&) const = default;
};

struct Succeeded {
    int round = 0;

    bool operator==(const Succeeded&) const = default;
};

struct Failed {
    int round = 0;
    /// The age of the event when this message was written: clocks of hosts are never compared.
    Duration age{};
    WorkerFailure failure;
    /// Set when no worker has failed, but the round cannot continue (the round's store cannot be
    /// reached).
    std::optional<Cause::Kind> kind;

    bool operator==(const Failed&) const = default;
};

/// The longest wait in the round's store, as reported by the node that serves it. All clients that
/// wait for the same key count as one wait.
struct StoreWait {
    int round = 0;
    std::string key;
    /// The number of other keys that the longest-waiting client also misses.
    std::uint64_t more_keys = 0;
    Duration age{};
    /// A client has cancelled the wait because its timeout had passed.
    bool has_timed_out = false;
    /// 0: no client has a long wait any more.
    std::uint64_t client_count = 0;
    /// The clients' ends of the connections, as they are at the store, numeric with port; a part of
    /// them when there are many.
    std::vector<std::string> sockets;

    bool operator==(const StoreWait&) const = default;
};

/// A connection to the round's store that is open in a worker of this node or in a descendant of a
/// worker.
struct StoreSocket {
    int local_rank = 0;
    /// The worker's end, numeric with port.
    std::string socket;

    bool operator==(const StoreSocket&) const = default;
};

/// Which workers of a node are connected to the round's store. The state of a worker that is in
/// none of the lists is unknown.
struct StoreClients {
    int round = 0;
    std::vector<StoreSocket> sockets;
    /// Local ranks that run and have no connection to the store.
    std::vector<int> unconnected;
    /// Local ranks that have ended.
    std::vector<int> ended;

    bool operator==(const StoreClients&) const = default;
};

struct RankProgress {
    int local_rank = 0;
    WorkProgress progress;

    bool operator==(const RankProgress&) const = default;
};

/// The progress of those workers of one node that have reported any; a part of them when there are
/// many.
struct NodeProgress {
    int round = 0;
    std::vector<RankProgress> ranks;
    /// The age of the latest of these reports when this message was written.
    Duration age{};

    bool operator==(const NodeProgress&) const = default;
};

/// Workers of one node that do the same in the same place.
struct Site {
    Activity activity = Activity::unknown;
    /// "read_batch (loader.py:112)"; may be empty.
    std::string place;
    /// What the kernel reports about the first of them; may be empty.
    std::string detail;
    /// When the message was written, each of these workers had been doing this for at least this
    /// long.
    Duration age{};
    std::vector<int> local_ranks;

    bool operator==(const Site&) const = default;
};

/// Describes what all workers of one node do.
struct NodeSites {
    int round = 0;
    std::vector<Site> sites;

    bool operator==(const NodeSites&) const = default;
};

struct Heartbeat {
    /// The acknowledgement repeats this number; 0: no acknowledgement is requested.
    std::uint64_t seq = 0;
    std::optional<StoreWait> wait = std::nullopt;
    std::optional<StoreClients> clients = std::nullopt;
    std::optional<NodeProgress> progress = std::nullopt;
    std::optional<NodeSites> sites = std::nullopt;

    bool operator==(const Heartbeat&) const = default;
};

/// The answer to `Ask`: when this node last answered an indirect probe from that member in this
/// round, if ever, and whether it has confirmed the suspicion. After a confirmation it answers no
/// further probe from that member.
struct NeighbourHeard {
    Nonce node;
    int round = 0;
    std::optional<Duration> heard_ago = std::nullopt;
    bool has_confirmed = false;

    bool operator==(const NeighbourHeard&) const = default;
};

struct Leave {
    std::string reason;
    /// SIGINT: the whole job ends. For any other signal only this node leaves.
    int signal = 0;
    /// The whole job ends because of this signal, not only for SIGINT.
    bool ends_job = false;
    /// With `ends_job`: the time between the signal and SIGKILL. Shortens the job's own grace, and
    /// never extends it.
    std::optional<Duration> grace = std::nullopt;

    bool operator==(const Leave&) const = default;
};

/// This node is about to be taken away; before that, all ranks of the job must save the same step.
/// The workers run until the save is done, `NoticeOver` arrives or the time is over.
struct Notice {
    /// "stopped by SIGTERM on node1"
    std::string reason;
    int signal = 0;
    /// The time from when this message was written until this node stops its workers, whether they
    /// have saved or not.
    Duration left{};
    /// The highest step for which a rank of this node has asked.
    std::optional<std::uint64_t> asked = std::nullopt;
    /// The job cannot continue without this node, which hosts the server.
    bool ends_job = false;
    /// The round of the step `asked`: the steps of another round may be far from those of the
    /// current one.
    std::optional<int> round = std::nullopt;

    bool operator==(const Notice&) const = default;
};

/// A command that an agent forwards: these nodes must leave, as after SIGTERM to their `ddprun`. A
/// node that joins later from one of their hosts stands by until `Undrain`.
struct Drain {
    /// Chosen by the sender; the answer repeats it.
    int id = 0;
    /// Hosts, group ranks or short nonces, in the form of /status.
    std::vector<std::string> nodes;
    /// Drains the nodes even if the job then ends, or cannot continue at once.
    bool is_forced = false;
    /// "ddprunctl (user alice, pid 4711 on node2)"
    std::string by;

    bool operator==(const Drain&) const = default;
};

/// A command that an agent forwards: nodes of these hosts may get a place again.
struct Undrain {
    int id = 0;
    /// Drained hosts, or short nonces of nodes that stand by because of a drain.
    std::vector<std::string> nodes;
    std::string by;

    bool operator==(const Undrain&) const = default;
};

/// A command that an agent forwards: the job has this many nodes from now on.
struct Resize {
    int id = 0;
    /// Without a unit: the job's own unit stays.
    NodeRange nodes = {};
    std::string by;

    bool operator==(const Resize&) const = default;
};

/// Which processes vote about the leader of the job, as far as the server knows.
struct Voters {
    /// Of the record that has the voters: another one is another register (rendezvous/voters/).
    Nonce lineage;
    /// In which the record was written. Of two messages about one lineage the one with the higher
    /// ballot is newer.
    Ballot ballot = {};
    VoterSet set = {};

    bool operator==(const Voters&) const = default;
};

/// The sender leads the job, elected by these voters: a server that has just begun the job at the
/// endpoint of the command line follows it. The only message of its connection.
struct Claim {
    std::string run_id;
    Voters voters;

    bool operator==(const Claim&) const = default;
};

using AgentMessage = std::variant<
    Join,
    Resume,
    Ready,
    Started,
    Succeeded,
    Failed,
    Heartbeat,
    NeighbourHeard,
    Leave,
    Notice,
    SaveReport,
    Drain,
    Undrain,
    Resize,
    WorkerAnswer,
    JobCommand,
    Claim>;

// ---- server to agent ----------------------------------------------------------------------------

/// The server's first frame on every connection.
struct Hello {
    std::vector<int> versions{1};

    bool operator==(const Hello&) const = default;
};

struct Welcome {
    std::string incarnation;
    Duration lease{};
    /// The job is lost with this server: no other one can follow. `Voters` says when that changes.
    bool hosted = false;
    /// Sent to version 2 and newer. A `Resume` with this token proves that the sender is the node
    /// that got this `Welcome`.
    std::optional<Nonce> token = std::nullopt;
    /// The epoch of the leadership that all messages on this connection belong to; 0: the server
    /// was not elected.
    std::uint64_t epoch = 0;
    /// The lineage of the record by which the server leads; none: no nodes vote.
    std::optional<Nonce> record = std::nullopt;

    bool operator==(const Welcome&) const = default;
};

struct Refused {
    std::string reason;
    /// The time after which to try again; none: never.
    std::optional<Duration> retry;
    /// Sent in place of `Hello`: the server accepts only nodes with the secret.
    bool needs_secret = false;
    /// The server leads no job, or another one. A node that knows of no leader asks at the next
    /// endpoint then; after another refusal it asks the same server again.
    bool does_not_lead = false;

    bool operator==(const Refused&) const = default;
};

struct Resumed {
    /// As in `Welcome`.
    std::uint64_t epoch = 0;
    std::optional<Nonce> record = std::nullopt;

    bool operator==(const Resumed&) const = default;
};

/// The node is no longer a member: it must kill its workers with SIGKILL, then join with a new
/// nonce.
struct Lost {
    std::string reason;

    bool operator==(const Lost&) const = default;
};

struct Stop {
    int round = 0;
    std::string reason;
    Cause root_cause;
    /// The signal that the workers get first; SIGKILL means no grace.
    int how = 15;
    Duration grace{};
    /// Another round may follow: workers that can keep their processes are held.
    bool keeps = false;

    bool operator==(const Stop&) const = default;
};

struct Standby {
    std::string reason;
    /// How many nodes must still join before a round begins; 0: the wait has another reason.
    int missing = 0;

    bool operator==(const Standby&) const = default;
};

struct HeartbeatAck {
    std::uint64_t seq = 0;
    /// Requests the `StoreClients` of this round.
    std::optional<int> clients_of = std::nullopt;
    /// The job's goodput, which the node keeps for the next server in case this one ends.
    std::optional<Goodput> goodput = std::nullopt;

    bool operator==(const HeartbeatAck&) const = default;
};

/// Asks a neighbour whether a silent member still sends it indirect probes.
struct Ask {
    Nonce node;
    int round = 0;
    /// If true, a neighbour that has answered no probe of the member within `limits::probe_window`
    /// confirms the suspicion, and answers no further probe of it in this round. If false, the
    /// neighbour only reports: the member may not have begun to send probes.
    bool must_confirm = false;

    bool operator==(const Ask&) const = default;
};

/// Sent to every member of the round.
struct SaveAt {
    int round = 0;
    SavePoint save;
    /// How long a rank waits for the agreement, counted from when this was written.
    Duration left{};

    bool operator==(const SaveAt&) const = default;
};

/// Sent to a node that gave a `Notice`: it must leave now, whether its ranks have saved or not.
struct NoticeOver {
    std::string reason;

    bool operator==(const NoticeOver&) const = default;
};

/// The answer to `Drain`, `Undrain` and `Resize`.
struct DrainAnswer {
    int id = 0;
    bool is_done = false;
    /// What was done, or why the command was refused.
    std::string text = {};

    bool operator==(const DrainAnswer&) const = default;
};

/// The receiver must leave, as after SIGTERM to its `ddprun`.
struct DrainOrder {
    /// "drained by ddprunctl (user alice, pid 4711 on node2)"
    std::string reason;

    bool operator==(const DrainOrder&) const = default;
};

/// Sent to every member of a round that makes no progress. The text is for the screen.
struct HangFound {
    int round = 0;
    /// "the job hangs: no progress for 60 s; rank 2 on node7 is the only one outside the
    /// collective"
    std::string headline;
    /// The rows of the report; empty: other nodes show them.
    std::vector<std::string> rows;
    /// The receiver's workers that it must kill because of the hang.
    std::vector<int> killed;

    bool operator==(const HangFound&) const = default;
};

struct JobResult {
    Outcome outcome = Outcome::succeeded;
    std::optional<Cause> root_cause;
    int exit_code = 0;
    /// Workers that failed after the root cause, and not because their agent stopped them: the
    /// first one of each node in the last round, in order of time; a part of them when there are
    /// many.
    std::vector<EndedWorker> secondary_failures = {};
    std::optional<Goodput> goodput = std::nullopt;

    bool operator==(const JobResult&) const = default;
};

/// Why the connection is about to be closed.
struct ProtocolError {
    std::string reason;

    bool operator==(const ProtocolError&) const = default;
};

using ServerMessage = std::variant<
    Hello,
    Welcome,
    Refused,
    Resumed,
    Lost,
    Resized,
    Drained,
    Voters,
    Assignment,
    Stop,
    Standby,
    HeartbeatAck,
    Ask,
    SaveAt,
    NoticeOver,
    DrainAnswer,
    DrainOrder,
    WorkerOrder,
    HangFound,
    JobResult,
    RankReport,
    JobCommandAnswer,
    ProtocolError>;

}  // namespace ddprun::control
