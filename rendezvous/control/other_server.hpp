// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::control {

/// Which server speaks another protocol than ours, by the first bytes that it sends: "an HTTP
/// server". Empty: it may be ours, or is not known here.
std::string_view other_server(std::string_view first_bytes);

/// So many bytes are enough.
inline constexpr std::size_t enough_to_name_server = 9;

}  // namespace ddprun::control
