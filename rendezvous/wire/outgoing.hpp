// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/shared_text.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::wire {

/// Replies on their way to one client, in order: a buffer of bytes, and shared texts between them,
/// which are not copied.
class Outgoing {
public:
    void append(std::string_view bytes) { own_.append(bytes); }
    void append_shared(const SharedText& text);

    /// Bytes that are not sent yet.
    std::size_t size() const { return own_.size() - own_sent_ + shared_bytes_; }
    /// The memory that this occupies besides shared texts.
    std::size_t held_bytes() const { return own_.capacity() + pieces_.capacity() * sizeof(Piece); }

    /// The next bytes to send that are contiguous in memory; all unsent bytes if they contain no
    /// shared text.
    std::string_view front() const;
    /// Sets `parts` to the next bytes to send, and returns how many parts are used. Requires: there
    /// is room for at least two.
    std::size_t gather(std::span<std::string_view> parts) const;
    void consume(std::size_t bytes);

    /// Requires: empty. Exchanges the buffers, so that another connection can use this one.
    void swap_buffer(std::string& buffer) { own_.swap(buffer); }

private:
    /// A shared text, and the number of the buffer's bytes before it.
    struct Piece {
        std::size_t position;
        SharedText text;
    };

    std::string own_;
    std::size_t own_sent_ = 0;
    std::vector<Piece> pieces_;
    std::size_t first_piece_ = 0;
    std::size_t first_piece_sent_ = 0;
    /// Unsent bytes of the pieces.
    std::size_t shared_bytes_ = 0;
};

}  // namespace ddprun::wire
