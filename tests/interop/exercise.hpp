// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/client/store_client.hpp"

#include <cstdint>

namespace ddprun::test {

/// Checks all functions of StoreClient with an empty store. Both ddprun's and PyTorch's store must
/// pass.
void exercise(const Endpoint& store);

}  // namespace ddprun::test
