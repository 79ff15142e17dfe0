// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/communication_hook.hpp"

#include <optional>

namespace ddprun::reduce {

/// What travels, where the hook is one of compress_to_... and nothing else.
std::optional<ElementType> compressed_type(const CommunicationHook& hook);

}  // namespace ddprun::reduce
