// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/process/spawn.hpp"

#include <span>
#include <string>
#include <vector>

/// What a parked process (workers/bootstrap.py) receives at its end of a socket pair.
namespace ddprun::agent {

/// Sends one message: these descriptors, and the descriptor of a file with the texts, each ended by
/// a null byte. Returns false when the process is gone, or when memory or descriptors are missing.
bool send_texts(int gate, const std::vector<std::string>& texts, std::span<const int> descriptors);

/// Gives the place that `spec` describes to the process that `spec.parked` names.
bool hand_over(const SpawnSpec& spec);

}  // namespace ddprun::agent
