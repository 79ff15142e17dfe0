// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// The messages between agents and the rendezvous server, as values. codec.hpp encodes and decodes
/// them; the meaning of each field is in FORMAT.md.
///
/// All free text came from a network peer: the codec has bounded it, nothing else about it is
/// checked.
namespace ddprun::control {

/// How many nodes a job wants: `MIN:MAX+SPARES`.
struct NodeRange {
    int min = 1;
    int max = 1;
    int spares = 0;
    /// A round has a multiple of so many nodes, and min and max are multiples; none: any number.
    std::optional<int> unit = std::nullopt;

    /// The most of `count` nodes that may form a round.
    std::size_t in_units(std::size_t count) const {
        return count - count % static_cast<std::size_t>(unit.value_or(1));
    }
    /// A range of sizes or spares were requested: a surplus node waits instead of being refused.
    bool keeps_spares() const { return min != max || spares > 0; }
    bool operator==(const NodeRange&) const = default;
};

enum class LateNodes : std::uint8_t { restart, at_restart, never };

/// Of the store of a round: every program that reaches it, or nodes that have the secret and their
/// workers.
enum class StoreAccess : std::uint8_t { direct, members };

/// What follows when a worker fails and the budget allows another round.
struct RestartPolicy {
    /// The pause before the next round; doubles up to the longest while failures come quickly.
    Duration shortest_delay{};
    Duration longest_delay{};
    /// The budget is full again when a round has run this long; zero: never.
    Duration refill_after{};
    /// Exit codes as in a shell (128 + signal) after which the job is not restarted.
    std::vector<int> final_codes{2, 126, 127};
    /// So many failed rounds without a new step end the job; empty: no count does.
    std::optional<int> rounds_without_progress;

    bool operator==(const RestartPolicy&) const = default;
};

/// What follows when no rank of a round goes on any more.
enum class OnHang : std::uint8_t { report, restart };

/// Time limits and policy on which all members of a job must agree.
struct Settings {
    Duration join_timeout = std::chrono::seconds{600};
    /// How long a job that lost nodes waits for enough others; without it `join_timeout`.
    std::optional<Duration> replacement_timeout;
    Duration last_call_timeout = std::chrono::seconds{30};
    Duration lease = std::chrono::seconds{30};
    /// Between the first signal and SIGKILL, on every node the same.
    Duration grace = std::chrono::seconds{30};
    LateNodes late_nodes = LateNodes::restart;
    int max_losses = 10;
    /// Fixed places: every node brings its node rank, which is its group rank.
    bool is_static = false;
    /// An older node knows `direct` only.
    StoreAccess store_access = StoreAccess::direct;
    /// How long no rank may go on before that counts as a hang; none: it is not looked for.
    std::optional<Duration> hang_after;
    OnHang on_hang = OnHang::report;
    /// How long a node may take to check itself before it is ready again; none: nodes do not.
    std::optional<Duration> health_timeout;
    RestartPolicy restart;

    /// How often an agent looks at its workers. Requires: hang_after.
    Duration look_interval() const {
        return std::min(limits::longest_look_interval, *hang_after / limits::looks_per_hang_limit);
    }

    bool operator==(const Settings&) const = default;
};

/// One life of one agent. The nonce is the node's identity; the rest is for display.
struct Node {
    Nonce nonce;
    std::string host;
    /// The keeper's: the process that was started on the command line.
    int pid = 0;
    std::uint32_t user = 0;
    /// The switch or rack that it is connected to, the levels above first: "row1/rack7". Empty: not
    /// known.
    std::string topology = {};

    bool operator==(const Node&) const = default;
};

// ---- how things end -----------------------------------------------------------------------------

/// The end of one worker process. `exited`: value is the code. `killed`: the signal.
/// `not_executed`: the errno of the failed exec.
struct WorkerEnd {
    enum class Kind : std::uint8_t { exited, killed, not_executed };
    Kind kind = Kind::exited;
    int value = 0;
    bool core_dumped = false;

    bool operator==(const WorkerEnd&) const = default;
};

/// What a worker says it is doing.
enum class WorkPhase : std::uint8_t { none, start, train, eval, save, compile, data };

/// As a worker has reported it.
struct WorkProgress {
    std::optional<std::uint64_t> step;
    WorkPhase phase = WorkPhase::none;

    bool is_known() const { return step || phase != WorkPhase::none; }
    bool operator==(const WorkProgress&) const = default;
};

/// What the time of a job goes into (docs/goodput.md).
enum class GoodputPhase : std::uint8_t {
    productive,
    redone,  ///< steps that an earlier round had done
    saving,
    hung,        ///< a hang was found, and lasts
    first_step,  ///< from the start of all workers to the first step
    starting,    ///< of the workers
    forming,
    draining,
    down,        ///< no node is connected, or the server was started again
    unmeasured,  ///< workers that report no steps
};
inline constexpr std::size_t goodput_phase_count = 10;

/// In their order.
template <class Use>
void for_each_phase(const Use& use) {
    for (std::size_t i = 0; i < goodput_phase_count; ++i)
        use(static_cast<GoodputPhase>(i));
}

/// How long a job has been in each phase.
struct Goodput {
    std::array<Duration, goodput_phase_count> spent{};

    Duration& operator[](GoodputPhase phase) { return spent.at(static_cast<std::size_t>(phase)); }
    Duration operator[](GoodputPhase phase) const {
        return spent.at(static_cast<std::size_t>(phase));
    }
    Duration sum() const { return std::accumulate(spent.begin(), spent.end(), Duration{}); }
    bool operator==(const Goodput&) const = default;
};

/// What a worker was seen doing.
enum class Activity : std::uint8_t {
    unknown,
    moving,           ///< its Python code goes on
    busy,             ///< in one place, and uses the processor or the disk
    waits_for_peers,  ///< in a call that ends when other ranks do their part
    waits_for_store,  ///< for a key of the round's store
    connects,         ///< to an address that does not answer, or refuses
    blocked,          ///< in one place, idle, and not because of other ranks
    stopped,          ///< by a signal (state T)
    in_kernel,        ///< in a system call that cannot be interrupted (state D)
    traced,           ///< by a debugger, or at a debugger's prompt
    ended,            ///< with code 0
};

/// One worker's failure as its agent observed it.
struct WorkerFailure {
    /// Which of it comes from the worker's error file; the rest comes from its agent.
    enum class FromErrorFile : std::uint8_t { none, message, message_and_details };

    int rank = 0;
    int local_rank = 0;
    int pid = 0;
    WorkerEnd end;
    /// One line: the exception's text, or how the process ended.
    std::string message;
    /// Its error file or the last lines of its standard error; may be empty.
    std::string details;
    /// The worker reports that it failed because another one did (SDK's PeerLost): a secondary
    /// failure, a root cause only when there is no other.
    bool is_secondary = false;
    /// The cause as its host shows it, as a sentence ("the kernel ran out of memory ...").
    std::string why = {};
    /// Where its error file is kept; empty: there is none any more.
    std::string error_file = {};
    /// Where its standard error was written to; empty: to no file.
    std::string log_file = {};
    /// Seconds since 1970 by its host's clock, for display only.
    std::optional<std::int64_t> unix_time = std::nullopt;
    FromErrorFile from_error_file = FromErrorFile::none;
    /// The last that it reported.
    WorkProgress progress = {};
    /// It was killed because it kept the job from going on (--on-hang=restart).
    bool has_hung = false;

    bool operator==(const WorkerFailure&) const = default;
};

/// The end of one worker of a failed round, as the report lists it.
struct EndedWorker {
    int rank = 0;
    int local_rank = 0;
    int pid = 0;
    WorkerEnd end;
    std::string host = {};

    bool operator==(const EndedWorker&) const = default;
};

/// Why a round or a job ended. `reason` is always there and reads as a sentence.
struct Cause {
    enum class Kind : std::uint8_t {
        worker_failed,
        not_executable,  ///< a program that cannot be started fails the job and is never retried
        store_unreachable,
        node_lost,
        node_left,
        late_node,
        no_node_joined,
        crash_loop,
        cancelled,
        superseded,
    };
    Kind kind = Kind::worker_failed;
    std::string reason;
    std::string host;
    int round = -1;
    /// With `cancelled` and `node_left`: the signal that asked for it.
    int signal = 0;
    std::optional<WorkerFailure> worker = std::nullopt;

    bool operator==(const Cause&) const = default;
};

enum class Outcome : std::uint8_t { succeeded, failed, cancelled };

// ---- a save that all ranks agree on -------------------------------------------------------------

/// How far the agreement on a step to save is. Of two states of one ballot the later one holds.
enum class SaveState : std::uint8_t {
    proposed,   ///< a rank that reaches the step waits
    cancelled,  ///< it was not agreed: a rank that has waited goes on
    agreed,     ///< a rank that reaches the step saves
    saved,      ///< every rank has, and the job goes on without the nodes that gave notice
    ending,     ///< every rank has, and the job ends for that
};

/// The step from which on every rank of a round is to save, once. Of two, the one with the higher
/// ballot holds.
struct SavePoint {
    int ballot = 1;
    std::uint64_t step = 0;
    SaveState state = SaveState::proposed;

    bool operator==(const SavePoint&) const = default;
};

/// What this node's ranks have done about a `SaveAt`: after it is known to all of them, and when it
/// changes.
struct SaveReport {
    int round = 0;
    int ballot = 1;
    /// The highest step for which a rank had asked when the proposal was known to all of them.
    std::optional<std::uint64_t> asked = std::nullopt;
    /// So many ranks have begun to save, the next ones included.
    int saving = 0;
    int saved = 0;
    /// Did not wait any longer for the agreement.
    int declined = 0;
    /// Have exited with 0, and not saved.
    int ended = 0;
    /// Of the steps that are being saved, or are.
    std::optional<std::uint64_t> least = std::nullopt;
    std::optional<std::uint64_t> most = std::nullopt;
    /// Local rank of the first that has neither saved nor ended, of those that never asked where
    /// there is one.
    std::optional<int> waiting = std::nullopt;
    /// That one has never asked.
    bool is_silent = false;

    bool operator==(const SaveReport&) const = default;
};

// ---- agent to server ----------------------------------------------------------------------------

struct Join {
    std::string run_id;
    /// Only when the scheduler has a job-wide one; otherwise the running job of this id is meant.
    std::optional<std::string> incarnation;
    Node node;
    NodeRange nodes;
    int nproc = 1;
    std::string role = "default";
    std::optional<int> node_rank;
    /// The address under which other nodes reach this one, if given (--local-addr); else empty.
    std::string addr;
    /// The agent's own end of this connection, numeric with port: shows whether a proxy is between.
    std::string socket_addr;
    std::uint16_t store_port = 0;
    std::uint16_t peer_port = 0;
    int max_restarts = 0;
    Settings settings;
    /// That the sender speaks (versions.hpp); empty: the first.
    std::vector<int> versions;
    /// The newest leadership that the sender has followed; 0: of a server that always leads.
    std::uint64_t epoch = 0;
    /// The server is part of this node's `ddprun`, and ends with it.
    bool is_hosting = false;

    bool operator==(const Join&) const = default;
};

struct Neighbour {
    Nonce nonce;
    std::string addr;
    std::uint16_t peer_port = 0;

    bool operator==(const Neighbour&) const = default;
};

/// A node's place in a round, and everything its workers' environment needs.
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
    /// The last step that the rounds before have done.
    std::optional<std::uint64_t> done_step = std::nullopt;

    bool operator==(const Assignment&) const = default;
};

enum class NodeState : std::uint8_t { starting, running, stopping, ready, succeeded };

/// The agent's whole state, on every reconnect.
struct Resume {
    Join join;
    std::string incarnation;
    std::optional<Assignment> assignment;
    /// Restarts of the job's budget spent, as last reported to this agent.
    int spent = 0;
    NodeState state = NodeState::ready;
    std::optional<WorkerFailure> failure;
    /// With a failure, as in `Failed`.
    std::optional<Duration> age = std::nullopt;
    std::optional<Cause::Kind> kind = std::nullopt;
    /// As in `Started`.
    int reached = 0;
    /// From `Welcome`.
    std::optional<Nonce> token = std::nullopt;
    /// The newest of the assignment's round.
    std::optional<SavePoint> save = std::nullopt;
    /// What its ranks have done about that.
    std::optional<SaveReport> save_report = std::nullopt;
    /// The newest that this node has, and how long ago it came when this was written.
    std::optional<Goodput> goodput = std::nullopt;
    std::optional<Duration> goodput_age = std::nullopt;

    bool operator==(const Resume&) const = default;
};

/// All workers of round `round` are gone and a fresh store listens.
struct Ready {
    int round = 0;
    std::uint16_t store_port = 0;
    int nproc = 1;

    bool operator==(const Ready&) const = default;
};

struct Started {
    int round = 0;
    /// How many neighbours' peer_port answered: with two or more this node's fence is the short
    /// one.
    int reached = 0;

    bool operator==(const Started&) const = default;
};

struct Succeeded {
    int round = 0;

    bool operator==(const Succeeded&) const = default;
};

struct Failed {
    int round = 0;
    /// How long ago it happened when this was written: clocks of hosts are never compared.
    Duration age{};
    WorkerFailure failure;
    /// Set when no worker died but the round cannot go on (the round's store is out of reach).
    std::optional<Cause::Kind> kind;

    bool operator==(const Failed&) const = default;
};

/// The longest wait in the round's store, as the node that serves it reports it. Clients that wait
/// for the same key are one wait.
struct StoreWait {
    int round = 0;
    std::string key;
    /// So many other keys are missing for the client that has waited longest.
    std::uint64_t more_keys = 0;
    Duration age{};
    /// A client has cancelled it: its timeout was over.
    bool has_timed_out = false;
    /// 0: no client waits for long any more.
    std::uint64_t client_count = 0;
    /// Their ends of the connections as the store sees them, numeric with port; not all if many.
    std::vector<std::string> sockets;

    bool operator==(const StoreWait&) const = default;
};

/// A connection to the round's store that a worker of this node, or a process below it, has open.
struct StoreSocket {
    int local_rank = 0;
    /// Its own end, numeric with port.
    std::string socket;

    bool operator==(const StoreSocket&) const = default;
};

/// Which workers of a node are connected to the round's store. Nothing is known of a worker that is
/// in none of the lists.
struct StoreClients {
    int round = 0;
    std::vector<StoreSocket> sockets;
    /// Local ranks that run and have no connection to it.
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

/// Of one node's workers those that have reported any; not all if many.
struct NodeProgress {
    int round = 0;
    std::vector<RankProgress> ranks;
    /// How long ago the last of it happened when this was written.
    Duration age{};

    bool operator==(const NodeProgress&) const = default;
};

/// Workers of one node that do the same in one place.
struct Site {
    Activity activity = Activity::unknown;
    /// "read_batch (loader.py:112)"; may be empty.
    std::string place;
    /// What the kernel shows of the first of them; may be empty.
    std::string detail;
    /// Each of them has done nothing else for so long when this was written.
    Duration age{};
    std::vector<int> local_ranks;

    bool operator==(const Site&) const = default;
};

/// What one node's workers do, all of them.
struct NodeSites {
    int round = 0;
    std::vector<Site> sites;

    bool operator==(const NodeSites&) const = default;
};

struct Heartbeat {
    /// 0: no sign of life is asked for; the message is about the rest.
    std::uint64_t seq = 0;
    std::optional<StoreWait> wait = std::nullopt;
    std::optional<StoreClients> clients = std::nullopt;
    std::optional<NodeProgress> progress = std::nullopt;
    std::optional<NodeSites> sites = std::nullopt;

    bool operator==(const Heartbeat&) const = default;
};

/// Answer to `Ask`: when this node last answered an indirect probe of that member in this round, if
/// it ever did, and whether it has confirmed the suspicion: then it answers no further probe of it.
struct NeighbourHeard {
    Nonce node;
    int round = 0;
    std::optional<Duration> heard_ago = std::nullopt;
    bool has_confirmed = false;

    bool operator==(const NeighbourHeard&) const = default;
};

struct Leave {
    std::string reason;
    /// SIGINT: the whole job ends. Anything else: this node leaves.
    int signal = 0;
    /// The whole job ends by this signal, whichever it is.
    bool ends_job = false;
    /// With `ends_job`: between the signal and SIGKILL, instead of the job's own; never longer.
    std::optional<Duration> grace = std::nullopt;

    bool operator==(const Leave&) const = default;
};

/// This node is about to be taken away: all ranks of the job are to save the same step before. The
/// workers run until the save is done, `NoticeOver` comes or the time is over.
struct Notice {
    /// "stopped by SIGTERM on node1"
    std::string reason;
    int signal = 0;
    /// From when this was written until this node stops its workers whatever has been saved.
    Duration left{};
    /// The highest step for which a rank of this node has asked.
    std::optional<std::uint64_t> asked = std::nullopt;
    /// The job cannot go on without this node, which has the server.
    bool ends_job = false;
    /// Of `asked`: steps of another round may be far from those of this one.
    std::optional<int> round = std::nullopt;

    bool operator==(const Notice&) const = default;
};

/// A command that the sender's agent passes on: these nodes are to leave, as by SIGTERM to their
/// `ddprun`, and a node of one of their hosts that joins later stands by until `Undrain`.
struct Drain {
    /// Of the sender; the answer repeats it.
    int id = 0;
    /// Hosts, group ranks or short nonces, as /status shows them.
    std::vector<std::string> nodes;
    /// Also where the job cannot go on at once, or ends.
    bool is_forced = false;
    /// "ddprunctl (user alice, pid 4711 on node2)"
    std::string by;

    bool operator==(const Drain&) const = default;
};

/// Nodes of these hosts may have a place again.
struct Undrain {
    int id = 0;
    /// Drained hosts, or short nonces of nodes that stand by for that.
    std::vector<std::string> nodes;
    std::string by;

    bool operator==(const Undrain&) const = default;
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
    Undrain>;

// ---- server to agent ----------------------------------------------------------------------------

/// The server's first frame on every connection.
struct Hello {
    std::vector<int> versions{1};

    bool operator==(const Hello&) const = default;
};

struct Welcome {
    std::string incarnation;
    Duration lease{};
    /// The server is part of a `ddprun`: when it is gone it is not started again.
    bool hosted = false;
    /// Shows in a `Resume` that its sender is the node that was welcomed. To version 2 and newer.
    std::optional<Nonce> token = std::nullopt;
    /// Of the leadership under which everything on this connection is said; 0: the server always
    /// leads.
    std::uint64_t epoch = 0;

    bool operator==(const Welcome&) const = default;
};

struct Refused {
    std::string reason;
    /// Try again after this long; never if absent.
    std::optional<Duration> retry;
    /// Instead of a hello: the server talks to nodes with the secret only.
    bool needs_secret = false;

    bool operator==(const Refused&) const = default;
};

struct Resumed {
    /// As in `Welcome`.
    std::uint64_t epoch = 0;

    bool operator==(const Resumed&) const = default;
};

/// The node is no longer a member: SIGKILL to its workers, then join with a new nonce.
struct Lost {
    std::string reason;

    bool operator==(const Lost&) const = default;
};

struct Stop {
    int round = 0;
    std::string reason;
    Cause root_cause;
    /// The signal the workers get first; SIGKILL means no grace.
    int how = 15;
    Duration grace{};

    bool operator==(const Stop&) const = default;
};

struct Standby {
    std::string reason;
    /// So many nodes must join before a round begins; 0: something else is waited for.
    int missing = 0;

    bool operator==(const Standby&) const = default;
};

struct HeartbeatAck {
    std::uint64_t seq = 0;
    /// The `StoreClients` of this round are asked for.
    std::optional<int> clients_of = std::nullopt;
    /// For the next server, if there is one.
    std::optional<Goodput> goodput = std::nullopt;

    bool operator==(const HeartbeatAck&) const = default;
};

/// Asks a neighbour whether a silent member still sends it indirect probes.
struct Ask {
    Nonce node;
    int round = 0;
    /// A neighbour that has answered no probe of it within `limits::probe_window` confirms the
    /// suspicion: it answers none any more in this round. While false the neighbour only reports:
    /// the member may not have begun to send probes.
    bool must_confirm = false;

    bool operator==(const Ask&) const = default;
};

/// To every member of the round.
struct SaveAt {
    int round = 0;
    SavePoint save;
    /// How long a rank waits for the agreement, from when this was written.
    Duration left{};

    bool operator==(const SaveAt&) const = default;
};

/// To a node that gave a `Notice`: it is to leave now, saved or not.
struct NoticeOver {
    std::string reason;

    bool operator==(const NoticeOver&) const = default;
};

/// To `Drain` and `Undrain`.
struct DrainAnswer {
    int id = 0;
    bool is_done = false;
    /// What was done, or why not.
    std::string text = {};

    bool operator==(const DrainAnswer&) const = default;
};

/// This node is to leave, as by SIGTERM to its `ddprun`.
struct DrainOrder {
    /// "drained by ddprunctl (user alice, pid 4711 on node2)"
    std::string reason;

    bool operator==(const DrainOrder&) const = default;
};

/// To every member of a round: it makes no progress, and why. For the screen.
struct HangFound {
    int round = 0;
    /// "the job hangs: no progress for 60 s; rank 2 on node7 is the only one outside the
    /// collective"
    std::string headline;
    /// One row each; none: other nodes show them.
    std::vector<std::string> rows;
    /// Workers of the receiver that are to be killed for it.
    std::vector<int> killed;

    bool operator==(const HangFound&) const = default;
};

struct JobResult {
    Outcome outcome = Outcome::succeeded;
    std::optional<Cause> root_cause;
    int exit_code = 0;
    /// Workers that failed by themselves after the root cause: the first of each node in the last
    /// round, in order of time; not all if many.
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
    Assignment,
    Stop,
    Standby,
    HeartbeatAck,
    Ask,
    SaveAt,
    NoticeOver,
    DrainAnswer,
    DrainOrder,
    HangFound,
    JobResult,
    ProtocolError>;

}  // namespace ddprun::control
