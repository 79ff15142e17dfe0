// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun {

/// Whether a stop was announced to this process. Unlike `should_stop` it installs no handlers: in a
/// program that never calls `should_stop`, the signal ends the process.
bool is_stop_announced();

}  // namespace ddprun
