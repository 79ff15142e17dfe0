// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/ctl/native_stacks.hpp"
#include "rendezvous/control/worker_order.hpp"

#include <vector>

namespace ddprun::launcher::ctl {

/// Those that can be started here.
std::vector<NativeTool> native_tools_here();

/// The native stacks of the workers that were seen, one worker after the other. For each the
/// programs are tried in this order until one succeeds. Requires: at least one program.
NativeByRank read_native(
    const std::vector<control::RankReport>& ranks, const std::vector<NativeTool>& tools);

}  // namespace ddprun::launcher::ctl
