// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::wire {

/// Bytes that have arrived and are not used up yet. What is consumed is dropped in one move when
/// more arrives, and a buffer that once held something big is given back.
class Input {
public:
    void append(std::string_view bytes);
    /// Valid until the next call of `append` or `consume`.
    std::string_view unread() const { return std::string_view{buffer_}.substr(read_); }
    /// Requires: bytes <= unread().size().
    void consume(std::size_t bytes);

private:
    std::string buffer_;
    std::size_t read_ = 0;
};

}  // namespace ddprun::wire
