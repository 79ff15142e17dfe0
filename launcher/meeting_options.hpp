// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolving.hpp"

/// Where the nodes of a job meet, under which name, and in which order. Which of torchrun's two
/// kinds of rendezvous is meant when little is said: the table in README.md.
namespace ddprun::launcher {

/// Fills endpoint, is_static, is_host, node_rank, run_id; may narrow `nodes`.
/// Requires: nodes and --rdzv-conf are resolved.
Result<> resolve_meeting(Resolving& job);

}  // namespace ddprun::launcher
