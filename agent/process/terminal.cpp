// SPDX-License-Identifier: Apache-2.0
#include "agent/process/terminal.hpp"

#include <unistd.h>

#include <utility>

namespace ddprun::agent {
namespace {

std::optional<termios> modes_now() {
    termios modes{};
    if (::tcgetattr(STDIN_FILENO, &modes) != 0) return std::nullopt;
    return modes;
}

void set_modes(const std::optional<termios>& modes) {
    // TCSANOW: waiting until all output is written would block the agent on a stopped terminal
    // (Ctrl-S).
    if (modes) ::tcsetattr(STDIN_FILENO, TCSANOW, &*modes);
}

}  // namespace

Terminal::Terminal() : original_(modes_now()) {}

void Terminal::reset() {
    of_worker_.reset();
    if (!is_handed_over_) set_modes(original_);
}

void Terminal::hand_over() {
    if (std::exchange(is_handed_over_, true)) return;
    of_worker_ = modes_now();
    set_modes(original_);
}

void Terminal::take_back() {
    if (!std::exchange(is_handed_over_, false)) return;
    set_modes(of_worker_ ? of_worker_ : original_);
    of_worker_.reset();
}

}  // namespace ddprun::agent
