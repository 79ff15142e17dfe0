// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/process/spawn.hpp"

#include <span>
#include <string>
#include <vector>

/// What a parked process (workers/bootstrap.py) is given at its end of a pair of sockets.
namespace ddprun::agent {

/// One message: these descriptors, and one more of a file that holds the texts, each ended by a
/// zero byte. False: the process is gone, or the system has no memory or descriptor for it.
bool send_texts(int gate, const std::vector<std::string>& texts, std::span<const int> descriptors);

/// The place that `spec` describes, to the process that `spec.parked` names.
bool hand_over(const SpawnSpec& spec);

}  // namespace ddprun::agent
