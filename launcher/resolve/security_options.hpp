// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/tls/secret.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// Whether the job has a secret, and where it is (docs/secrets.md). Files are read later.
struct SecretChoice {
    enum class Place {
        none,
        file,      ///< of --rdzv-secret-file
        own_file,  ///< of --secure: made where there is none
        variable,  ///< of DDPRUN_SECRET
    };
    Place place = Place::none;
    std::string origin;
    std::string path;
    /// Of a variable.
    std::vector<tls::Secret> secrets;
    /// A job of several nodes that has none and is not meant to.
    bool is_missed = false;
};

}  // namespace ddprun::launcher
