// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/node_watch.hpp"
#include "agent/health/xid_line.hpp"
#include "agent/plan/rank_save.hpp"
#include "agent/report/job_report.hpp"
#include "agent/supervise/failure_report.hpp"
#include "agent/supervise/neighbours.hpp"
#include "agent/supervise/server_link.hpp"
#include "agent/supervise/worker_group.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/command.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// The events and effects of `Agent`, used by the agent itself, its parts and its drivers. An event
/// or effect that a part declares under the same name is passed on unchanged.
struct AgentInterface {
    /// `describe` returns its text for the user.
    using ConnectError = ServerLink::ConnectError;

    // ---- events ----

    struct Began {};
    /// The answers to OpenStore.
    struct StoreOpened {
        std::uint16_t port;
    };
    struct StoreFailed {
        std::string reason;
    };
    /// From now on the job is lost with this process, or no longer: it serves the rendezvous, and
    /// no other node can follow.
    struct HostingChanged {
        bool is_hosting;
    };
    using SuccessionChanged = ServerLink::SuccessionChanged;
    using LinkOpened = ServerLink::LinkOpened;
    using LinkClosed = ServerLink::LinkClosed;
    using ConnectRefused = ServerLink::ConnectRefused;
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
    /// On its channel a worker has asked to be held instead of stopped, or the channel is closed.
    using WorkerRecoverable = WorkerGroup::Recoverable;
    /// Answer to HoldWorker: the worker waits for the next round.
    struct WorkerHeld {
        int round;
        control::KeptWorker worker;
    };
    using FailureExplained = FailureReport::FailureExplained;
    struct LeftoversCounted {
        int count;
    };
    /// Answer to CheckStore.
    struct StoreChecked {
        int round;
        /// Empty: the store answered.
        std::string failure;
    };
    using NoticeGiven = FailureReport::NoticeGiven;
    /// Clients have waited long in a store that this node serves on this port. `wait.round` is not
    /// set.
    struct StoreWaited {
        std::uint16_t port;
        control::StoreWait wait;
    };
    /// Answer to FindStoreClients.
    struct StoreClientsFound {
        control::StoreClients clients;
    };
    /// A probe from another agent. `caller` is different for each probe, and AnswerPeer repeats it.
    struct PeerAsked {
        int caller;
        PeerProbe probe;
    };
    /// The progress that this node's workers of a round have reported so far.
    struct ProgressRead {
        control::NodeProgress progress;
    };
    /// Answer to LookAtWorkers.
    struct WorkersSeen {
        int round;
        std::vector<health::Look> looks;
    };
    /// The save state that this node's ranks show now.
    struct SavesRead {
        int round;
        std::vector<RankSave> ranks;
    };
    /// Answer to ShowSave: every rank can see the save point. `ranks` was read after that.
    struct SaveShown {
        int round;
        int ballot;
        std::vector<RankSave> ranks;
    };
    /// Answer to Neighbours::Ask. Empty `answer`: none came in time.
    struct PeerAnswered {
        int ask;
        std::optional<PeerAnswer> answer;
    };
    /// SIGINT, SIGTERM, SIGHUP, SIGQUIT or the signal of --preempt-signal arrived at `ddprun`.
    struct Signalled {
        int signal;
        /// The sender has signalled every process of this node.
        bool is_for_all_processes = false;
    };
    /// A command ends the job on every node; the workers get SIGTERM.
    struct StopCommanded {
        /// The command, with its user and process.
        std::string reason;
        /// The time between SIGTERM and SIGKILL, in place of the job's grace and never longer.
        std::optional<Duration> grace = std::nullopt;
    };
    /// Commands that the server carries out. The server's answer becomes an `AnswerCommand` with
    /// the command's `id`.
    using DrainCommanded = control::Drain;
    using UndrainCommanded = control::Undrain;
    using ResizeCommanded = control::Resize;
    /// Answer to PerformOrder.
    struct OrderPerformed {
        int link;
        std::uint64_t id;
        control::CommandReply reply;
    };
    /// Answer to CheckHealth.
    struct HealthChecked {
        /// `unknown`: the check ended in another way, or not in time; `not_run`: its command could
        /// not be executed.
        enum class Answer : std::uint8_t { fit, unfit, unknown, not_run };
        Answer answer;
        /// Why the node is unfit, or what went wrong.
        std::string text;
    };
    /// The kernel's log has an error of a GPU.
    struct XidSeen {
        /// The round whose workers were inspected; none: there were no workers.
        std::optional<int> round;
        health::XidLine line;
        /// The local ranks that use this GPU, or only the rank that the driver names.
        std::vector<int> local_ranks;
    };
    struct DeadlinePassed {};
    using Event = std::variant<
        Began,
        StoreOpened,
        StoreFailed,
        HostingChanged,
        SuccessionChanged,
        LinkOpened,
        LinkClosed,
        ConnectRefused,
        Received,
        WorkerSpawned,
        WorkerExited,
        WorkerRecoverable,
        WorkerHeld,
        FailureExplained,
        LeftoversCounted,
        StoreChecked,
        NoticeGiven,
        StoreWaited,
        StoreClientsFound,
        ProgressRead,
        WorkersSeen,
        SavesRead,
        SaveShown,
        PeerAsked,
        PeerAnswered,
        Signalled,
        StopCommanded,
        DrainCommanded,
        UndrainCommanded,
        ResizeCommanded,
        OrderPerformed,
        HealthChecked,
        XidSeen,
        DeadlinePassed>;

    // ---- effects ----

    /// Opens a store with a fresh keyspace, on a port of its own. Stores that are open stay open.
    struct OpenStore {
        bool operator==(const OpenStore&) const = default;
    };
    /// Closes the store after its clients have read the answers that are already sent.
    struct CloseStore {
        std::uint16_t port;
        bool operator==(const CloseStore&) const = default;
    };
    using Connect = ServerLink::Connect;
    using Send = ServerLink::Send;
    using CloseLink = ServerLink::CloseLink;
    /// Spawns every worker of this node, in order of local rank. Those that are kept get the
    /// round's environment on their channel instead.
    struct SpawnWorkers {
        control::Assignment assignment;
        std::string incarnation;
        /// The numeric address at which the other nodes reach this node.
        std::string node_addr;
        /// The local ranks of the workers that are kept.
        std::vector<int> kept = {};
        bool operator==(const SpawnWorkers&) const = default;
    };
    /// Makes one connection to the round's store, within limits::store_reachability_timeout.
    struct CheckStore {
        int round;
        Endpoint store;
        bool operator==(const CheckStore&) const = default;
    };
    /// Finds the workers that are connected to this port, the port of the round's store.
    struct FindStoreClients {
        int round;
        std::uint16_t port;
        /// By local rank; 0: the worker does not run.
        std::vector<int> pids;
        /// The local ranks of ended workers, for the answer. Listed before the search, because a
        /// worker that ends during the search may have been stopped.
        std::vector<int> ended;
        bool operator==(const FindStoreClients&) const = default;
    };
    /// Inspects what each worker does at this moment.
    struct LookAtWorkers {
        int round;
        /// By local rank; 0: the worker does not run.
        std::vector<int> pids;
        bool operator==(const LookAtWorkers&) const = default;
    };
    /// Checks whether this node is fit to run workers; no worker runs meanwhile.
    struct CheckHealth {
        enum class Reason : std::uint8_t { start, failure, hang, xid };
        Reason reason;
        bool operator==(const CheckHealth&) const = default;
    };
    using GiveNotice = FailureReport::GiveNotice;
    using ExplainFailure = FailureReport::ExplainFailure;
    /// Removes the error files of a round whose last process has ended and whose failure is
    /// explained.
    struct CleanUpRound {
        int round;
        /// Workers are held, or are still ending: their processes and channels stay.
        bool keeps_workers = false;
        bool operator==(const CleanUpRound&) const = default;
    };
    /// Sends this answer and then closes the connection; empty: closes it at once.
    struct AnswerPeer {
        int caller;
        std::optional<PeerAnswer> answer;
        bool operator==(const AnswerPeer&) const = default;
    };
    /// Sets the time at which the keeper kills this node; none: the keeper does not.
    struct SetFence {
        std::optional<Instant> ends_at;
        bool operator==(const SetFence&) const = default;
    };
    /// Orders the server in this process to end the job on every node.
    struct InterruptServer {
        int signal;
        std::string reason;
        /// The time between the signal and SIGKILL, in place of the job's grace.
        std::optional<Duration> grace = std::nullopt;
        bool operator==(const InterruptServer&) const = default;
    };
    using NoteWaiting = ServerLink::NoteWaiting;
    using NoteStandby = ServerLink::NoteStandby;
    /// A round cannot begin: nodes are missing.
    struct NoteMissing {
        std::string reason;
        std::string next_step;
        bool operator==(const NoteMissing&) const = default;
    };
    /// The first SIGINT: shows the user the workers' `grace` and the effect of a second SIGINT.
    struct NoteInterrupt {
        Duration grace;
        bool operator==(const NoteInterrupt&) const = default;
    };
    struct NoteStopping {
        int round;
        std::string reason;
        bool operator==(const NoteStopping&) const = default;
    };
    /// Shows the save point to this node's ranks of the round.
    struct ShowSave {
        int round;
        control::SavePoint save;
        /// When a rank stops waiting for an agreement that it has not seen.
        Instant wait_ends_at{};
        bool operator==(const ShowSave&) const = default;
    };
    /// This node is about to be taken away; the workers run until then, so that they can save.
    struct NoteNotice {
        std::string reason;
        Duration left;
        bool operator==(const NoteNotice&) const = default;
    };
    /// From this step on, every rank saves at its next opportunity, once.
    struct NoteSave {
        std::uint64_t step;
        bool operator==(const NoteSave&) const = default;
    };
    /// The node stops now, with or without a common save.
    struct NoteNoticeOver {
        std::string reason;
        bool operator==(const NoteNoticeOver&) const = default;
    };
    /// A command takes this node out of the job.
    struct NoteDrained {
        std::string reason;
        bool operator==(const NoteDrained&) const = default;
    };
    /// The health check, or an error of a GPU, takes this node out of the job.
    struct NoteUnfit {
        std::string reason;
        bool operator==(const NoteUnfit&) const = default;
    };
    /// The health check has no answer, and the node counts as fit.
    struct NoteHealthUnknown {
        std::string reason;
        bool operator==(const NoteHealthUnknown&) const = default;
    };
    /// An error of a GPU, and what is done about it.
    struct NoteXid {
        std::string what;
        std::string effect;
        bool operator==(const NoteXid&) const = default;
    };
    /// The round makes no progress. Each row names ranks and their activity; no rows: other nodes
    /// show them.
    struct NoteHang {
        int round;
        std::string headline;
        std::vector<std::string> rows;
        bool operator==(const NoteHang&) const = default;
    };
    /// The outcome of a command that was passed on to the server.
    struct AnswerCommand {
        int id;
        bool is_done;
        std::string text;
        bool operator==(const AnswerCommand&) const = default;
    };
    /// Performs an order of the server, as if `ddprunctl` had given it on this machine.
    struct PerformOrder {
        int link;
        control::WorkerOrder order;
        bool operator==(const PerformOrder&) const = default;
    };
    using NoteServerLost = ServerLink::NoteServerLost;
    using NoteServerBack = ServerLink::NoteServerBack;
    /// A message was ignored because it is not valid now, e.g. its round is over.
    struct NoteStale {
        std::string what;
        bool operator==(const NoteStale&) const = default;
    };
    struct NoteStuck {
        std::vector<int> local_ranks;
        int leftover_count;
        bool operator==(const NoteStuck&) const = default;
    };
    /// The last effect: none follows it.
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
        FindStoreClients,
        LookAtWorkers,
        CheckHealth,
        GiveNotice,
        ExplainFailure,
        CleanUpRound,
        Neighbours::Ask,
        AnswerPeer,
        SetFence,
        InterruptServer,
        NoteWaiting,
        NoteStandby,
        NoteMissing,
        NoteInterrupt,
        NoteStopping,
        ShowSave,
        NoteNotice,
        NoteSave,
        NoteNoticeOver,
        NoteDrained,
        NoteUnfit,
        NoteHealthUnknown,
        NoteXid,
        NoteHang,
        AnswerCommand,
        PerformOrder,
        NoteServerLost,
        NoteServerBack,
        NoteStale,
        NoteStuck,
        Finish,
        // The group's effects on processes, passed on unchanged.
        WorkerGroup::SignalLeader,
        WorkerGroup::SignalSession,
        WorkerGroup::KillSession,
        WorkerGroup::CancelSpawns,
        WorkerGroup::CountLeftovers,
        WorkerGroup::SignalLeftovers,
        WorkerGroup::KillLeftovers,
        WorkerGroup::HoldWorker>;
};

/// "failure"
std::string_view name_of(AgentInterface::CheckHealth::Reason reason);
std::string describe(const AgentInterface::Event& event);
std::string describe(const AgentInterface::Effect& effect);

}  // namespace ddprun::agent
