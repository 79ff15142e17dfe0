// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/options.hpp"
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

inline const std::string secret_variable{tls::secret_variable};

/// A file that is named comes first, then the variable, then the file of --secure.
Result<SecretChoice> choose_secret(const Options& options, const Environment& environment);

}  // namespace ddprun::launcher
