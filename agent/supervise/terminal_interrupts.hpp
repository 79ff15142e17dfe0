// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::agent {

/// Which process gets a Ctrl-C while one rank has the terminal. The first goes to that rank, where
/// a debugger catches it; a second one within limits::repeated_interrupt_time goes to the job, and
/// so do all later ones. A rank that dies of its Ctrl-C ends the job as the job's own Ctrl-C does.
class TerminalInterrupts {
public:
    enum class Receiver : std::uint8_t { rank, job };

    /// `has_rank`: the rank's process runs, in a round that is not being stopped.
    Receiver next(bool has_rank, Instant now);

    /// This exit of the rank ends the job, like the job's own Ctrl-C.
    bool is_for_job(const WorkerExit& exit) const;

private:
    std::optional<Instant> last_;
    bool is_for_job_ = false;
};

}  // namespace ddprun::agent
