// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::net {

/// Takes as many descriptors as the administrator allows, and room for them. To be called before
/// the first thread is started: once a process has threads, its table of descriptors grows only
/// after all processors have passed a quiet moment (synchronize_rcu), 10 to 30 ms at each doubling.
void prepare_descriptors();

}  // namespace ddprun::net
