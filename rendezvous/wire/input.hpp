// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::wire {

/// Received bytes that are not consumed yet. Consumed bytes are dropped in one move when more
/// arrive, and a buffer that once held something big is freed.
class Input {
public:
    void append(std::string_view bytes);
    /// As `append`, but without a copy if no byte was unread. Requires: `bytes` stay valid until
    /// `own`.
    void borrow(std::string_view bytes);
    /// Copies the rest of the borrowed bytes.
    void own();
    /// Valid until the next call of another function.
    std::string_view unread() const {
        return borrowed_.empty() ? std::string_view{buffer_}.substr(read_) : borrowed_;
    }
    /// The memory that the buffer occupies.
    std::size_t held_bytes() const { return buffer_.capacity(); }
    /// Requires: bytes <= unread().size().
    void consume(std::size_t bytes);

private:
    std::string buffer_;
    std::size_t read_ = 0;
    /// While this has bytes, the buffer is empty.
    std::string_view borrowed_;
};

}  // namespace ddprun::wire
