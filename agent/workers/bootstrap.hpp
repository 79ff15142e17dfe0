// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun::agent {

/// The content of bootstrap.py.
std::string_view bootstrap();

}  // namespace ddprun::agent
