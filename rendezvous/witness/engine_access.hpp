// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/tls/certified_session.hpp"

#include <optional>
#include <string>

namespace ddprun::witness {

/// How a client connects to the engine of an election, and as which user.
struct EngineAccess {
    struct Login {
        std::string user;
        std::string password;
        bool operator==(const Login&) const = default;
    };

    /// None: HTTP without encryption.
    std::optional<tls::Credentials> credentials = std::nullopt;
    /// etcd. None: no user is given.
    std::optional<Login> login = std::nullopt;
    /// Kubernetes: the token of the pod's service account.
    std::string token = {};
};

}  // namespace ddprun::witness
