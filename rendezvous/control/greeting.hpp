// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/message.hpp"

#include <string_view>
#include <variant>

namespace ddprun::control {

/// The reason of a refusal for now by a server that leads no job. A node that knows of no leader
/// asks at the next endpoint then; after another reason it asks the same server again.
inline constexpr std::string_view does_not_lead = "this server does not lead the job";

/// The join in the first message of a node, which joins or comes back; null when it is another
/// message. `Message`: AgentMessage, const or not.
template <class Message>
auto greeting_in(Message& message) -> decltype(std::get_if<Join>(&message)) {
    if (auto* join = std::get_if<Join>(&message)) return join;
    auto* resume = std::get_if<Resume>(&message);
    return resume == nullptr ? nullptr : &resume->join;
}

}  // namespace ddprun::control
