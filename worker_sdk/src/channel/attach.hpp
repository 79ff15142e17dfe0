// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ddprun::channel {

inline constexpr std::size_t page_bytes = 4096;

struct Attachment {
    /// The page, mapped until the process ends; null when there is none.
    void* words = nullptr;
    /// Stays open as long as this process uses the page.
    int connection = -1;
};

/// One attempt, 100 ms in all. `way`: the value of DDPRUN_CHANNEL, or null.
Attachment attach(const char* way);

}  // namespace ddprun::channel
