// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/options.hpp"
#include "rendezvous/tls/secret.hpp"

#include <string>
#include <vector>

namespace ddprun::launcher {

/// Whether the job has a secret, and where it comes from (docs/secrets.md). Files are read later.
struct SecretChoice {
    enum class Place {
        none,
        file,      ///< the file of --rdzv-secret-file
        own_file,  ///< the file of --secure, made if there is none
        variable,  ///< the variable DDPRUN_SECRET
    };
    Place place = Place::none;
    std::string origin;
    std::string path;
    /// Set for a variable.
    std::vector<tls::Secret> secrets;
    /// The job has several nodes and no secret, and no option allows that.
    bool is_missed = false;
};

inline const std::string secret_variable{tls::secret_variable};

/// Precedence: a named file, then the variable, then the file of --secure.
Result<SecretChoice> choose_secret(const Options& options, const Environment& environment);

}  // namespace ddprun::launcher
