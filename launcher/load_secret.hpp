// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolve/security_options.hpp"
#include "rendezvous/base/result.hpp"

#include <optional>

namespace ddprun::launcher {

/// Reads the secret from where it is, and makes the file of --secure if needed. On error the code
/// is EINVAL and the context is the message to show.
Result<std::optional<tls::SecretSource>> load_secret(const SecretChoice& choice);

}  // namespace ddprun::launcher
