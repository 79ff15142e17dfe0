// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"

#include <cstdint>
#include <exception>

namespace ddprun {

/// Publishes this worker's progress: how many steps are done. Two stores into a page of memory, no
/// system call; call it in every step. Any thread.
///
/// Any process that may read /proc of this one can read it at any time, without disturbing it:
/// among its descriptors is one whose link is "/memfd:ddprun-progress (deleted)", and the file
/// behind it begins with three numbers of 64 bits in the machine's byte order:
///
///   0   0x31474f5250504444 ("DDPPROG1")
///   8   the step of the last report
///   16  when it was made: nanoseconds of CLOCK_BOOTTIME; 0 before the first one
///
/// It vanishes with the process. Under ddprun the agent has the step as well, in a page of its own:
/// `/status` and the report of a failed job show it.
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

/// What this process is doing while the object lives; then what it did before. For the agent, which
/// shows it in `/status` and in the report of a failed job. Any thread, one inside the other. An
/// exception that ends it changes nothing: the report has the phase in which it was thrown.
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
