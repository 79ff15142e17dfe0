// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/input.hpp"

namespace ddprun::wire {
namespace {

constexpr std::size_t worth_keeping_bytes = 512;

}  // namespace

void Input::append(std::string_view bytes) {
    own();
    // Each move copies fewer bytes than were consumed before it, so all moves together take linear
    // time.
    if (read_ > buffer_.size() / 2) {
        buffer_.erase(0, read_);
        read_ = 0;
    }
    buffer_.append(bytes);
}

void Input::borrow(std::string_view bytes) {
    if (unread().empty())
        borrowed_ = bytes;
    else
        append(bytes);
}

void Input::own() {
    if (borrowed_.empty()) return;
    buffer_.assign(borrowed_);
    borrowed_ = {};
}

void Input::consume(std::size_t bytes) {
    if (!borrowed_.empty()) return borrowed_.remove_prefix(bytes);
    read_ += bytes;
    if (read_ < buffer_.size()) return;
    read_ = 0;
    if (buffer_.capacity() > worth_keeping_bytes)
        std::string{}.swap(buffer_);
    else
        buffer_.clear();
}

}  // namespace ddprun::wire
