// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/message.hpp"
#include "rendezvous/wire/outgoing.hpp"

#include <string>
#include <string_view>

namespace ddprun::wire {

/// Appends a message as the bytes of FORMAT.md. Limits are not checked here. The server closes the
/// connection on a request that is too long, so clients check before (client/store_client.hpp).
void encode(const Request& request, std::string& out);
void encode(const Reply& reply, std::string& out);
/// Appends the same bytes, but does not copy shared texts.
void encode(const Reply& reply, Outgoing& out);

/// Appends a key in the form of the reply to LIST_KEYS.
void encode_key(std::string_view key, std::string& out);

}  // namespace ddprun::wire
