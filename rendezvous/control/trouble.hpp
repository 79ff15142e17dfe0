// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::control {

/// Why an agent has no connection to the server (any more), as far as a person and the agent's
/// machine care.
enum class Trouble : std::uint8_t {
    unresolved,      ///< the endpoint's name does not resolve
    refused,         ///< a machine is there and nobody listens
    no_answer,       ///< no packet, no route, or a listener that says nothing
    wrong_protocol,  ///< somebody else lives on that port
    wrong_version,   ///< a rendezvous server of another protocol version
    lost,            ///< was open: end of file, reset, or a queue over its bound
};

}  // namespace ddprun::control
