// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/client/store_client.hpp"

#include <cstdint>

namespace ddprun::test {

/// Everything StoreClient can do, checked against a fresh store: ours and PyTorch's must both pass.
void exercise(const Endpoint& store);

}  // namespace ddprun::test
