// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/tls/certified_session.hpp"

#include <optional>
#include <string>

namespace ddprun::witness {

/// How a client connects to etcd, and as which user.
struct EtcdAccess {
    struct Login {
        std::string user;
        std::string password;
        bool operator==(const Login&) const = default;
    };

    /// None: HTTP without encryption.
    std::optional<tls::Credentials> credentials = std::nullopt;
    /// None: no user is given.
    std::optional<Login> login = std::nullopt;
};

}  // namespace ddprun::witness
