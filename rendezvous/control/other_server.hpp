// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun::control {

/// The kind of a server that speaks another protocol, such as "an HTTP server", determined by its
/// first bytes. Empty: the server may be a rendezvous server, or is not recognized.
std::string_view other_server(std::string_view first_bytes);

/// This many bytes are enough for `other_server`.
inline constexpr std::size_t enough_to_name_server = 9;

}  // namespace ddprun::control
