// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/outgoing.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::wire {
namespace {

/// Sent bytes are dropped once there are at least this many, and at least as many as unsent ones.
constexpr std::size_t worth_dropping_bytes = 64 * 1024;

}  // namespace

void Outgoing::append_shared(const SharedText& text) {
    if (!text.is_shared()) return append(text.view());
    pieces_.push_back({own_.size(), text});
    shared_bytes_ += text.size();
}

std::string_view Outgoing::front() const {
    const auto own = std::string_view{own_}.substr(own_sent_);
    if (first_piece_ == pieces_.size()) return own;
    const auto& piece = pieces_[first_piece_];
    if (piece.position > own_sent_) return own.substr(0, piece.position - own_sent_);
    return piece.text.view().substr(first_piece_sent_);
}

std::size_t Outgoing::gather(std::span<std::string_view> parts) const {
    std::size_t count = 0;
    const auto add = [&](std::string_view bytes) {
        if (!bytes.empty()) parts[count++] = bytes;
    };
    const std::string_view own{own_};
    auto position = own_sent_;
    auto piece_sent = first_piece_sent_;
    for (auto i = first_piece_; i < pieces_.size() && count + 2 <= parts.size(); ++i) {
        const auto& piece = pieces_[i];
        add(own.substr(position, piece.position - position));
        add(piece.text.view().substr(std::exchange(piece_sent, 0)));
        position = piece.position;
        if (i + 1 == pieces_.size() && count < parts.size()) add(own.substr(position));
    }
    if (first_piece_ == pieces_.size()) add(own.substr(position));
    return count;
}

void Outgoing::consume(std::size_t bytes) {
    while (bytes > 0 && first_piece_ < pieces_.size()) {
        auto& piece = pieces_[first_piece_];
        const auto before = std::min(bytes, piece.position - own_sent_);
        own_sent_ += before;
        bytes -= before;
        if (bytes == 0) break;
        const auto shared = std::min(bytes, piece.text.size() - first_piece_sent_);
        first_piece_sent_ += shared;
        shared_bytes_ -= shared;
        bytes -= shared;
        if (first_piece_sent_ < piece.text.size()) break;
        piece.text = {};
        ++first_piece_;
        first_piece_sent_ = 0;
    }
    own_sent_ += bytes;
    if (size() == 0) {
        own_.clear();
        own_sent_ = first_piece_ = 0;
        decltype(pieces_){}.swap(pieces_);
        return;
    }
    if (own_sent_ < worth_dropping_bytes || own_sent_ < own_.size() / 2) return;
    if (first_piece_ > 0 && first_piece_ < pieces_.size() / 2) return;
    own_.erase(0, own_sent_);
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_piece_));
    for (auto& piece : pieces_)
        piece.position -= own_sent_;
    own_sent_ = first_piece_ = 0;
}

}  // namespace ddprun::wire
