// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/ids.hpp"
#include "rendezvous/tls/secret.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

/// The keys that are derived from a secret, one for each purpose, so that bytes that were recorded
/// or reflected from one kind of connection are no proof on another kind. Pure.
namespace ddprun::tls {

/// A pre-shared key of TLS.
struct Key {
    /// Sent in clear text: the purpose, and eight bytes that differ between secrets.
    std::string identity;
    std::array<std::uint8_t, 32> bytes{};

    bool operator==(const Key&) const = default;
};

/// From a node to the rendezvous server.
Key control_key(const Secret& secret);

/// From a node to the probe port of another node: only the agent with this nonce has the same key.
Key peer_key(const Secret& secret, const Nonce& callee);

/// From a node to the same port, about the job's leader: only the process with this voter has it.
Key vote_key(const Secret& secret, const Nonce& voter);

/// From a node of a round to the agent that serves the round's store. Each round, and each
/// incarnation of the job, has another key.
Key store_key(const Secret& secret, std::string_view incarnation, int round);

/// A token that gives access to the pages of the rendezvous server and nothing else: 64 digits,
/// sent in clear text.
std::string page_token(const Secret& secret);

/// Compares in a time that does not depend on where the tokens differ.
bool are_equal_tokens(std::string_view a, std::string_view b);

}  // namespace ddprun::tls
