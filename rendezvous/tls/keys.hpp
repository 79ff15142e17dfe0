// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/tls/secret.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

/// What a secret is used for: one key for each purpose, so that what was recorded or reflected of
/// one kind of connection proves nothing on another. Pure.
namespace ddprun::tls {

/// A pre-shared key of TLS.
struct Key {
    /// On the wire: the purpose, and eight bytes that differ between secrets.
    std::string identity;
    std::array<std::uint8_t, 32> bytes{};

    bool operator==(const Key&) const = default;
};

/// From a node to the rendezvous server.
Key control_key(const Secret& secret);

/// From one node to the port for probes of another: only the agent with this nonce has it too.
Key peer_key(const Secret& secret, const Nonce& callee);

/// From a node of a round to the agent that serves the round's store: of another round, or of
/// another life of the job, it is another key.
Key store_key(const Secret& secret, std::string_view incarnation, int round);

/// With it the pages of the rendezvous server can be read, and nothing else: 64 digits, sent in
/// clear text.
std::string page_token(const Secret& secret);

/// In a time that says nothing about where they differ.
bool are_equal_tokens(std::string_view a, std::string_view b);

}  // namespace ddprun::tls
