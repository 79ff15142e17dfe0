// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::control {

/// Why an agent has no connection to the server (any more), as the agent's machine and its screen
/// distinguish it.
enum class ConnectError : std::uint8_t {
    unresolved,      ///< the endpoint's name does not resolve
    refused,         ///< the host answers, no process listens
    no_answer,       ///< no packet, no route, or a listener that sends nothing
    wrong_protocol,  ///< the port belongs to another program
    wrong_version,   ///< a rendezvous server of another protocol version
    wrong_secret,    ///< a server that does not accept the secret, or has not proved it
    not_encrypted,   ///< there is a secret here, and the server answers without encryption
    needs_secret,    ///< there is none here, and the server speaks to nodes with the secret only
    lost,            ///< was open: end of file, reset, or a queue over its bound
};

}  // namespace ddprun::control
