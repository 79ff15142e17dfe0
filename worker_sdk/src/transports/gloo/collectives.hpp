// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/gloo/mesh.hpp"
#include "worker_sdk/src/transports/gloo/plugin_abi.hpp"

namespace ddprun::groups {

/// Performs it; throws what Gloo throws.
void perform(Mesh& mesh, const DdprunCollective& collective);

}  // namespace ddprun::groups
