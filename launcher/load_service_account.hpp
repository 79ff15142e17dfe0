// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/engine_access.hpp"

#include <string>

namespace ddprun::launcher {

/// Reads the authority of the API server and the token from the folder of a pod's service account.
/// The kubelet replaces the token before it expires. On error the code is EINVAL and the context is
/// the message to show.
Result<witness::EngineAccess> load_service_account(const std::string& folder);

/// The pod's namespace, from the same folder.
Result<std::string> load_namespace(const std::string& folder);

}  // namespace ddprun::launcher
