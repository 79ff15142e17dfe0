// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/job_data.hpp"

/// Commands by which nodes are taken out of a job, and their hosts let in again. A drained node
/// gets an order and leaves by its own `Leave`, as by SIGTERM to its `ddprun`: what follows is
/// decided there. A node that joins from its host later is a member without a place until the host
/// is undrained; one that was a member before is not touched.
namespace ddprun::coordinator {

/// Answers the sender: done, or why not.
void on_drain(JobStep& step, Member& sender, const control::Drain& drain);
void on_undrain(JobStep& step, Member& sender, const control::Undrain& undrain);

/// Its order to a drained node that has not said that it leaves: after a new connection the order
/// may have been lost. Nothing where the node is none of the job.
void repeat_drain(const JobStep& step, const Nonce& nonce);

}  // namespace ddprun::coordinator
