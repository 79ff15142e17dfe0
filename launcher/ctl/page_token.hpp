// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/tls/secret.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher::ctl {

/// The secrets in `secret_file`, else in DDPRUN_SECRET, else in the file of --secure, which is not
/// created here; `option` is the option of the file, for messages. On error the context is the
/// message to show. On success tls::check_openssl has succeeded.
Result<tls::SecretSource> find_secrets(
    const std::string& option, const std::optional<std::string>& secret_file);

/// The page token of the secret in `secret_file`, else in DDPRUN_SECRET, else in the file of
/// --secure, which is not created here. On error the context is the message to show.
Result<std::string> page_token(const std::optional<std::string>& secret_file);

}  // namespace ddprun::launcher::ctl
