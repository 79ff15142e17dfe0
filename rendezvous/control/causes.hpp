// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

/// Describes what workers do, and how workers, rounds and jobs end. Parts of messages
/// (message.hpp); FORMAT.md has the meaning of each field.
namespace ddprun::control {

/// The end of one worker process. The value is the exit code for `exited`, the signal for `killed`,
/// and for `not_executed` the errno of the failed exec.
struct WorkerEnd {
    enum class Kind : std::uint8_t { exited, killed, not_executed };
    Kind kind = Kind::exited;
    int value = 0;
    bool core_dumped = false;

    bool operator==(const WorkerEnd&) const = default;
};

/// The phase that a worker reports.
enum class WorkPhase : std::uint8_t { none, start, train, eval, save, compile, data };

/// The progress that a worker has reported.
struct WorkProgress {
    std::optional<std::uint64_t> step;
    WorkPhase phase = WorkPhase::none;

    bool is_known() const { return step || phase != WorkPhase::none; }
    bool operator==(const WorkProgress&) const = default;
};

/// The phases of a job's time (docs/goodput.md).
enum class GoodputPhase : std::uint8_t {
    productive,
    redone,  ///< steps that an earlier round had already done
    saving,
    hung,        ///< a hang that was detected and still lasts
    first_step,  ///< from the start of all workers to the first step
    starting,    ///< start of the workers
    forming,
    draining,
    down,        ///< no node is connected, or the server was restarted
    unmeasured,  ///< the workers run, but report no steps
};
inline constexpr std::size_t goodput_phase_count = 10;

/// Calls `use` for each phase, in order.
template <class Use>
void for_each_phase(const Use& use) {
    for (std::size_t i = 0; i < goodput_phase_count; ++i)
        use(static_cast<GoodputPhase>(i));
}

/// The time that a job has spent in each phase.
struct Goodput {
    std::array<Duration, goodput_phase_count> spent{};

    Duration& operator[](GoodputPhase phase) { return spent.at(static_cast<std::size_t>(phase)); }
    Duration operator[](GoodputPhase phase) const {
        return spent.at(static_cast<std::size_t>(phase));
    }
    Duration sum() const { return std::accumulate(spent.begin(), spent.end(), Duration{}); }
    bool operator==(const Goodput&) const = default;
};

/// What a worker is doing, as observed by its agent.
enum class Activity : std::uint8_t {
    unknown,
    moving,           ///< its Python code proceeds
    busy,             ///< stays in one place and uses the processor or the disk
    waits_for_peers,  ///< inside a call that ends when other ranks do their part of it
    waits_for_store,  ///< waits for a key of the round's store
    connects,         ///< connects to an address that does not answer, or refuses
    blocked,          ///< stays in one place, idle, and not because of other ranks
    stopped,          ///< stopped by a signal (state T)
    in_kernel,        ///< inside a system call that cannot be interrupted (state D)
    traced,           ///< stopped by a debugger, or at a debugger's prompt
    ended,            ///< ended with code 0
};

/// One worker's failure as its agent observed it.
struct WorkerFailure {
    /// Which fields come from the worker's error file; the others come from its agent.
    enum class FromErrorFile : std::uint8_t { none, message, message_and_details };

    int rank = 0;
    int local_rank = 0;
    int pid = 0;
    WorkerEnd end;
    /// One line: the exception's text, or how the process ended.
    std::string message;
    /// The text of the worker's error file, or the last lines of its standard error; may be empty.
    std::string details;
    /// The worker reports that it failed because another one did (the SDK's PeerLost): a secondary
    /// failure, which counts as the root cause only when there is no other failure.
    bool is_secondary = false;
    /// The cause as found on the worker's host, as a sentence ("the kernel ran out of memory ...").
    std::string why = {};
    /// The path of the worker's error file; empty: it is not kept.
    std::string error_file = {};
    /// The file with the worker's standard error; empty: it was not written to a file.
    std::string log_file = {};
    /// Seconds since 1970 by the clock of the worker's host, for display only.
    std::optional<std::int64_t> unix_time = std::nullopt;
    FromErrorFile from_error_file = FromErrorFile::none;
    /// The worker's last report.
    WorkProgress progress = {};
    /// The worker was killed because it blocked the job (--on-hang=restart).
    bool has_hung = false;

    bool operator==(const WorkerFailure&) const = default;
};

/// The end of one worker of a failed round, for the list in the report.
struct EndedWorker {
    int rank = 0;
    int local_rank = 0;
    int pid = 0;
    WorkerEnd end;
    std::string host = {};

    bool operator==(const EndedWorker&) const = default;
};

/// Why a round or a job ended. `reason` is always set and reads as a sentence.
struct Cause {
    enum class Kind : std::uint8_t {
        worker_failed,
        not_executable,  ///< a program that cannot be started: the job fails and is never retried
        store_unreachable,
        node_lost,
        node_left,
        late_node,
        no_node_joined,
        crash_loop,
        cancelled,
        superseded,
        resized,  ///< by a command
    };
    Kind kind = Kind::worker_failed;
    std::string reason;
    std::string host;
    int round = -1;
    /// For `cancelled` and `node_left`: the signal that requested it.
    int signal = 0;
    std::optional<WorkerFailure> worker = std::nullopt;

    bool operator==(const Cause&) const = default;
};

enum class Outcome : std::uint8_t { succeeded, failed, cancelled };

}  // namespace ddprun::control
