// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <termios.h>

#include <optional>

namespace ddprun::agent {

/// Manages the modes of standard input, a terminal that one worker reads (--attach). A line editor
/// switches off echo and line mode; if it is killed or stopped, it does not restore them. The agent
/// may set the modes at any time: its session is not the terminal's, so the kernel does not treat
/// it as a background job.
class Terminal {
public:
    Terminal();

    /// Call when the worker has ended: restores the modes.
    void reset();
    /// Call when the worker is stopped, and the shell is about to take the terminal back.
    void hand_over();
    /// Call when the worker continues: restores the modes that it had.
    void take_back();

private:
    /// The modes at the start of ddprun.
    std::optional<termios> original_;
    /// The worker's modes, while the shell has the terminal.
    std::optional<termios> of_worker_;
    bool is_handed_over_ = false;
};

}  // namespace ddprun::agent
