// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/communication_hook.hpp"

#include <optional>

namespace ddprun::reduce {

/// The compressed type, where the hook is one of compress_to_..., else nothing.
std::optional<ElementType> compressed_type(const CommunicationHook& hook);

}  // namespace ddprun::reduce
