// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher::ctl {

/// Of the secret in `secret_file`; else of DDPRUN_SECRET; else of the file of --secure, which is
/// not made here. On error the context is the sentence to show.
Result<std::string> page_token(const std::optional<std::string>& secret_file);

}  // namespace ddprun::launcher::ctl
