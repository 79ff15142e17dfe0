// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/store/store.hpp"

#include <string>

namespace ddprun::store {

/// One line for a person: `#7 SET "/k" 12 B`, `stop waiting -> #3`.
std::string describe(const Store::Event& event);
std::string describe(const Store::Effect& effect);

}  // namespace ddprun::store
