// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"

#include <cstdint>

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
/// It vanishes with the process.
inline void report_progress(std::uint64_t step) {
    ddprun_report_progress(step);
}

}  // namespace ddprun
