// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher::ctl {

/// The page token of the secret in `secret_file`, else in DDPRUN_SECRET, else in the file of
/// --secure, which is not created here. On error the context is the message to show.
Result<std::string> page_token(const std::optional<std::string>& secret_file);

}  // namespace ddprun::launcher::ctl
