// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/worker_exit.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::agent {

/// Decides which process gets a Ctrl-C while one rank has the terminal. The first Ctrl-C goes to
/// that rank, where a debugger catches it. A second one within limits::repeated_interrupt_time goes
/// to the job, as do all later ones. A rank that dies of a Ctrl-C ends the job, like a Ctrl-C for
/// the job.
class TerminalInterrupts {
public:
    enum class Receiver : std::uint8_t { rank, job };

    /// `has_rank`: the rank's process runs, in a round that is not being stopped.
    Receiver next(bool has_rank, Instant now);

    /// This exit of the rank ends the job, like a Ctrl-C for the job.
    bool is_for_job(const WorkerExit& exit) const;

private:
    std::optional<Instant> last_;
    bool is_for_job_ = false;
};

}  // namespace ddprun::agent
