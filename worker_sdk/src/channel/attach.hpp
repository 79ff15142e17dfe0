// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ddprun::channel {

inline constexpr std::size_t page_bytes = 4096;

struct Attachment {
    /// The page, mapped until the process ends; null: there is none.
    void* words = nullptr;
    /// Open as long as the page is this process's.
    int connection = -1;
};

/// One attempt, 100 ms in all. `way`: the value of DDPRUN_CHANNEL, or null.
Attachment attach(const char* way);

}  // namespace ddprun::channel
