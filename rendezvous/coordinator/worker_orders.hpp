// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// Commands of other machines that agents perform: signals to workers, and looks at them. Each
/// agent whose workers are meant gets an order for its ranks of the current round (for a look one
/// for each worker). The caller is answered, and its connection closed, when all agents have
/// answered, or after `limits::worker_order_timeout`; what is seen of a worker is sent to the
/// caller as it comes.
namespace ddprun::coordinator {

/// Requires: a command to signal workers or to look at them.
void begin_orders(JobStep& step, JobCommanded commanded);
void on_worker_answer(JobStep& step, const Member& member, const control::WorkerAnswer& answer);
void end_orders_if_due(JobStep& step);
/// Drops the command of a caller that has disconnected; false: there is none on this connection.
bool drop_command(JobData& job, ConnectionId caller);
std::optional<Instant> next_order_deadline(const JobData& job);

}  // namespace ddprun::coordinator
