// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/plan/death_note.hpp"
#include "agent/report/cause_in_words.hpp"
#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {

/// What is known about the root cause of a round's end when a worker exits.
enum class RootCause : std::uint8_t {
    unknown,
    /// A worker's end on this node is being explained, or waits for the settle window.
    in_question,
    /// Every failure so far, on any node, names another worker's death as its cause.
    not_reported,
    known,
};

/// A worker's exit, and the other facts that its blame depends on.
struct ExitFacts {
    WorkerExit exit;
    /// Set while the workers are being stopped: the first signal that they got.
    std::optional<int> stop_signal = std::nullopt;
    /// This agent has sent SIGKILL, so a death by SIGKILL is expected.
    bool has_killed = false;
    RootCause root_cause = RootCause::unknown;
};

enum class Blame : std::uint8_t {
    none,
    /// This agent ended the worker, or kept it from starting.
    expected_exit,
    /// The worker failed after the failure that counts.
    secondary_failure,
    /// The root cause: the program cannot be executed, and no explanation is needed.
    not_executable,
    /// The worker died of a polite signal. If a scheduler has signalled every process, its signal
    /// to this agent may still come.
    perhaps_signalled,
    /// The root cause, unless its explanation names the death of another worker.
    own_failure,
};

Blame blame_of(const ExitFacts& facts);

/// Finds which worker of this node failed first in one round and why, and when the failure may be
/// reported to the server. Driven by `Agent`, which makes a new object for each round. `blame_of`
/// judges each exit.
///
///   watching   --own failure-->               explaining  ExplainFailure; GiveNotice or
///                                                         StopWorkers
///   watching   --perhaps signalled-->         settling    waits limits::settle_window
///   watching   --not executable-->            watching    FailureFound; GiveNotice or StopWorkers
///   watching   --StoreUnreachable-->          watching    FailureFound, StopWorkers
///   settling   --LeaveBegan-->                watching    the signal was for the whole node
///   settling   --window over-->               explaining  as an own failure
///   explaining --FailureExplained, 5 s-->     watching    FailureFound
///   explaining --explained as secondary-->    explaining  the next failed worker; after the last
///                                                         one the first of them is the failure
///   any        --other bad exit-->            same        listed in `ends`
///
/// GiveNotice is used if the round has other ranks. Until NoticeGiven or a timeout, the failure
/// stops no worker and is not reported (`is_reportable`).
class FailureReport {
public:
    struct Place {
        int round = 0;
        int rank_base = 0;
        std::string host;
        /// The place in the store where other workers read about deaths, without the ranks. None:
        /// no worker reads there.
        std::optional<DeathNote> notice = std::nullopt;
    };
    /// Workers of the round that did not exit with 0, each list in the order of the ends.
    struct Ends {
        /// Ended by themselves.
        std::vector<control::EndedWorker> failed;
        /// Ended because this agent stopped them.
        std::vector<control::EndedWorker> stopped;
    };

    // ---- events ----

    struct WorkerExited {
        int local_rank;
        int pid;
        WorkerExit exit;
        /// This agent has sent SIGKILL, so a death by SIGKILL is expected.
        bool has_killed;
    };
    /// Answer to ExplainFailure: the facts in the worker's files and about its machine.
    struct FailureExplained {
        int round;
        int local_rank;
        /// `message` and `details` are from the error file; empty: there is no error file.
        std::string message;
        std::string details;
        bool is_secondary;
        CauseInWords cause = {};
        /// Where the error file is kept; empty: it is not kept.
        std::string error_file = {};
        /// The file that gets the worker's standard error; empty: there is none.
        std::string log_file = {};
        std::optional<std::int64_t> unix_time = std::nullopt;
        control::WorkerFailure::FromErrorFile from_error_file =
            control::WorkerFailure::FromErrorFile::none;
        control::WorkProgress progress = {};
    };
    /// No worker failed, but the round cannot go on.
    struct StoreUnreachable {
        std::string reason;
    };
    /// Answer to GiveNotice, whether or not it succeeded.
    struct NoticeGiven {
        int round;
    };
    /// These workers are about to be killed because they block the job.
    struct HangFound {
        std::vector<int> local_ranks;
        std::string reason;
    };
    /// The kernel's log has an error of the GPU of these workers.
    struct XidSeen {
        std::vector<int> local_ranks;
        /// The GPU, the error and its text.
        std::string what;
        /// The workers cannot go on: they are killed if they do not end by themselves.
        bool needs_restart;
    };
    /// The workers get this signal, for any reason.
    struct StopBegan {
        int signal;
    };
    /// The server stopped the round, for a failure that was reported to it.
    struct StopReceived {
        bool is_for_secondary_failure;
    };
    /// A signal ends this node.
    struct LeaveBegan {};
    struct DeadlinePassed {};
    using Event = std::variant<
        WorkerExited,
        FailureExplained,
        StoreUnreachable,
        NoticeGiven,
        HangFound,
        XidSeen,
        StopBegan,
        StopReceived,
        LeaveBegan,
        DeadlinePassed>;

    // ---- effects ----

    struct ExplainFailure {
        int round;
        int local_rank;
        bool operator==(const ExplainFailure&) const = default;
    };
    /// Writes the deaths to the round's store for the other workers, before any death causes a
    /// signal. Takes at most limits::death_notice_timeout.
    struct GiveNotice {
        int round;
        DeathNote note;
        bool operator==(const GiveNotice&) const = default;
    };
    /// The round is over for this node. From here on all its workers count as being stopped.
    struct StopWorkers {
        bool operator==(const StopWorkers&) const = default;
    };
    /// `failure` has changed, and has not been reported to the server.
    struct FailureFound {
        bool operator==(const FailureFound&) const = default;
    };
    using Effect = std::variant<ExplainFailure, GiveNotice, StopWorkers, FailureFound>;

    explicit FailureReport(Place place) : place_(std::move(place)) {}

    void handle(Event event, Instant now, std::vector<Effect>& out);
    std::optional<Instant> next_deadline() const;

    /// A worker's end may still become the failure, so the worker's error file is needed.
    bool is_open() const { return !std::holds_alternative<Watching>(question_); }
    bool has_failure() const { return failure_.has_value(); }
    /// Workers of this node were killed because they blocked the job.
    bool has_hung() const { return hang_.has_value(); }
    /// A GPU had an error after which the workers that use it need a restart.
    bool has_xid() const { return xid_ && xid_->what.needs_restart; }
    /// There is a failure, and the other workers had time to read about it.
    bool is_reportable() const { return failure_ && !notice_until_; }
    /// Requires: `is_reportable`.
    const control::WorkerFailure& failure() const { return failure_->what; }
    /// Empty if a worker failed. Requires: there is a failure.
    std::optional<control::Cause::Kind> kind() const { return failure_->kind; }
    Duration age(Instant now) const { return now - failed_at_; }
    Ends ends() const;

private:
    struct Watching {};
    struct Settling {
        int local_rank;
        Instant until;
    };
    struct Explaining {
        int local_rank;
        Instant until;
    };
    struct Failed {
        control::EndedWorker end;
        /// The end in words.
        std::string how;
    };
    struct Failure {
        control::WorkerFailure what;
        std::optional<control::Cause::Kind> kind;
    };

    void on_exited(const WorkerExited& exited, Instant now, std::vector<Effect>& out);
    void on_explained(FailureExplained explained, Instant now, std::vector<Effect>& out);
    void on_store_unreachable(std::string reason, Instant now, std::vector<Effect>& out);
    void on_deadline(Instant now, std::vector<Effect>& out);
    void explain(int local_rank, Instant now, std::vector<Effect>& out);
    void set_failure(Failure failure, std::vector<Effect>& out);
    void give_notice_or_stop(int rank, Instant now, std::vector<Effect>& out);
    void stop(std::vector<Effect>& out);
    RootCause root_cause() const;
    control::WorkerFailure failure_of(int local_rank) const;
    void on_xid(XidSeen seen, Instant now);
    void call_hang_the_cause(control::WorkerFailure& failure) const;
    void name_xid(control::WorkerFailure& failure) const;
    void check() const;

    Place place_;
    std::variant<Watching, Settling, Explaining> question_;
    /// When the failure happened. A later explanation does not change it.
    Instant failed_at_{};
    std::optional<Failure> failure_;
    /// Set while other workers are notified of a death: before this time the death stops no worker.
    std::optional<Instant> notice_until_;
    std::vector<Failed> failed_;
    std::vector<control::EndedWorker> stopped_;
    /// The first explained failure that was caused by another worker's death.
    std::optional<control::WorkerFailure> first_secondary_;
    std::size_t secondary_count_ = 0;
    std::optional<HangFound> hang_;
    struct SeenXid {
        XidSeen what;
        Instant at;
    };
    /// The first GPU error that needs a restart; if there is none, the first GPU error.
    std::optional<SeenXid> xid_;
    /// Set while the workers are being stopped.
    std::optional<int> stop_signal_;
    bool is_stop_for_secondary_ = false;  ///< the server's stop was for a secondary failure
};

std::string describe(const FailureReport::Event& event);
std::string describe(const FailureReport::Effect& effect);

/// The form in which an exit is sent in control messages.
control::WorkerEnd to_worker_end(const WorkerExit& exit);

}  // namespace ddprun::agent
