// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"

#include <cstdint>
#include <exception>

namespace ddprun {

/// Publishes this worker's progress: how many steps are done. Costs two stores into a page of
/// memory and no system call, so call it in every step. Any thread.
///
/// Any process that may read this process's /proc can read the progress at any time, without
/// disturbing it: one of the descriptors is a link to "/memfd:ddprun-progress (deleted)", and that
/// file begins with three 64-bit numbers in the machine's byte order:
///
///   0   0x31474f5250504444 ("DDPPROG1")
///   8   the step of the last report
///   16  when that report was made: nanoseconds of CLOCK_BOOTTIME; 0 before the first one
///
/// The file vanishes with the process. Under ddprun the agent also has the step, in its own page,
/// and shows it in `/status` and in the report of a failed job.
inline void report_progress(std::uint64_t step) {
    ddprun_report_progress(step);
}

enum class PhaseKind {
    start = DDPRUN_PHASE_START,
    train = DDPRUN_PHASE_TRAIN,
    eval = DDPRUN_PHASE_EVAL,
    save = DDPRUN_PHASE_SAVE,
    compile = DDPRUN_PHASE_COMPILE,
    data = DDPRUN_PHASE_DATA,
};

/// Sets this process's phase while the object exists; the destructor restores the previous phase.
/// The agent shows the phase in `/status` and in the report of a failed job. Any thread may use it;
/// phases nest. When an exception leaves the scope, the phase in which it was thrown stays set, for
/// the report.
class Phase {
public:
    explicit Phase(PhaseKind kind)
        : before_(ddprun_set_phase(static_cast<ddprun_phase>(static_cast<int>(kind)))),
          exceptions_(std::uncaught_exceptions()) {}
    ~Phase() {
        if (std::uncaught_exceptions() == exceptions_) ddprun_set_phase(before_);
    }
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

private:
    ddprun_phase before_;
    int exceptions_;
};

}  // namespace ddprun
