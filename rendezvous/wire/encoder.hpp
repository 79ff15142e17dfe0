// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/message.hpp"
#include "rendezvous/wire/outgoing.hpp"

#include <string>
#include <string_view>

namespace ddprun::wire {

/// Appends a message as the bytes of FORMAT.md. Limits are not checked here. The server would
/// answer a request that is too long by closing the connection, so clients check before
/// (client/store_client.hpp).
void encode(const Request& request, std::string& out);
void encode(const Reply& reply, std::string& out);
/// The same bytes; shared texts are not copied.
void encode(const Reply& reply, Outgoing& out);

/// Appends a key as the reply to LIST_KEYS has it.
void encode_key(std::string_view key, std::string& out);

}  // namespace ddprun::wire
