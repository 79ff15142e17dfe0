// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/terminal_interrupts.hpp"

#include "rendezvous/base/limits.hpp"

#include <csignal>

namespace ddprun::agent {

TerminalInterrupts::Receiver TerminalInterrupts::next(bool has_rank, Instant now) {
    const bool is_repeated = last_ && now - *last_ < limits::repeated_interrupt_time;
    if (!has_rank || is_repeated) is_for_job_ = true;
    if (is_for_job_) return Receiver::job;
    last_ = now;
    return Receiver::rank;
}

bool TerminalInterrupts::is_for_job(const WorkerExit& exit) const {
    return last_ && exit.signal() == SIGINT;
}

}  // namespace ddprun::agent
