// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::net {

/// Raises the descriptor limit to the hard limit and allocates the table for it. To be called
/// before the first thread is started: once a process has threads, its table of descriptors grows
/// only after an RCU grace period (synchronize_rcu), 10 to 30 ms at each doubling.
void prepare_descriptors();

}  // namespace ddprun::net
