// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace ddprun::test {

/// How long a test waits for a fact that a healthy program makes true in milliseconds: only a hang
/// ever takes this long, however busy the machine.
inline constexpr std::chrono::seconds fact_timeout{30};

/// Waits for a fact without a notification (a process is gone, a file has appeared): checks
/// repeatedly.
template <class Fact>
bool holds_within(std::chrono::milliseconds deadline, Fact fact) {
    const auto until = std::chrono::steady_clock::now() + deadline;
    while (!fact()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    return true;
}

}  // namespace ddprun::test
