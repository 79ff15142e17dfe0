// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <variant>

namespace ddprun::control {

/// The join in the first message of a node, which joins or comes back; null when it is another
/// message. `Message`: AgentMessage, const or not.
template <class Message>
auto greeting_in(Message& message) -> decltype(std::get_if<Join>(&message)) {
    if (auto* join = std::get_if<Join>(&message)) return join;
    auto* resume = std::get_if<Resume>(&message);
    return resume == nullptr ? nullptr : &resume->join;
}

}  // namespace ddprun::control
