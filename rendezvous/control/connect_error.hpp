// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::control {

/// Why an agent has no connection to the server, or no longer has one: the cases that the agent's
/// machine and screen distinguish.
enum class ConnectError : std::uint8_t {
    unresolved,      ///< the endpoint's name does not resolve
    refused,         ///< the host answers, no process listens
    no_answer,       ///< no packet, no route, or a listener that sends nothing
    wrong_protocol,  ///< the port belongs to another program
    wrong_version,   ///< a rendezvous server of another protocol version
    wrong_secret,    ///< the server does not accept the secret, or has not proved that it has it
    not_encrypted,   ///< this end has a secret, and the server answers without encryption
    needs_secret,    ///< this end has no secret, and the server requires one
    lost,            ///< the connection was open: end of file, reset, or a queue over its bound
};

}  // namespace ddprun::control
