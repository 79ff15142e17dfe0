// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/shared_text.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::wire {

/// Replies on their way to one client, in order: a buffer of bytes, and in between shared texts,
/// which are not copied.
class Outgoing {
public:
    void append(std::string_view bytes) { own_.append(bytes); }
    void append_shared(const SharedText& text);

    /// Bytes that are not sent yet.
    std::size_t size() const { return own_.size() - own_sent_ + shared_bytes_; }
    /// What this keeps in memory besides shared texts.
    std::size_t held_bytes() const { return own_.capacity() + pieces_.capacity() * sizeof(Piece); }

    /// The bytes to send next, as far as they are in one place; all of them if no shared text
    /// waits.
    std::string_view front() const;
    /// The same in several parts; returns their number. Requires: there is room for at least two.
    std::size_t gather(std::span<std::string_view> parts) const;
    void consume(std::size_t bytes);

    /// Requires: empty. Exchanges the buffers, so that one can serve another connection.
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
