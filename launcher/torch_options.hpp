// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/resolving.hpp"

namespace ddprun::launcher {

/// Options of torchrun that are about its Python inside: read as torchrun reads them, so that the
/// same mistakes are found, and each answered with one sentence about what happens instead.
Result<> resolve_torch_options(Resolving& job);

}  // namespace ddprun::launcher
