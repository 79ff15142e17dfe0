// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The messages between keeper and agent: one per packet, no answer is waited for.
namespace ddprun::agent::keeper {

/// Keeper to agent: this signal was sent to `ddprun`. SIGTSTP: stop the workers, the keeper is
/// about to stop itself; SIGCONT: it goes on again.
struct SignalCame {
    std::int32_t signal;
};

enum class Said : std::uint32_t {
    /// `signals_read` is news.
    heard_signals,
    /// The fence was set, or moved to an earlier moment: look at the page.
    fence_moved,
    /// A descriptor comes with it: the control connection from now on.
    connection,
};

/// Agent to keeper.
struct FromAgent {
    Said said;
    /// How many signals the agent has read by now.
    std::uint32_t signals_read;
};

}  // namespace ddprun::agent::keeper
