// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <termios.h>

#include <optional>

namespace ddprun::agent {

/// Standard input, a terminal that one worker reads (--attach): keeps its modes in order. A line
/// editor switches echo and lines off; one that is killed or stopped does not switch them on again.
/// The agent may set them at any time: it is in another session than the terminal's, so the kernel
/// does not take it for a background job.
class Terminal {
public:
    Terminal();

    /// The worker is gone.
    void reset();
    /// The worker is stopped, and the shell is about to take the terminal back.
    void hand_over();
    /// It goes on; with the modes that it had.
    void take_back();

private:
    /// As ddprun found them.
    std::optional<termios> original_;
    /// The worker's, while the shell has the terminal.
    std::optional<termios> of_worker_;
    bool is_handed_over_ = false;
};

}  // namespace ddprun::agent
