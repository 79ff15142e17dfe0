// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

inline constexpr std::size_t max_endpoints = 8;

/// Reads `HOST[:PORT][,HOST[:PORT]...]`, at most `max_endpoints`. Only a single one may have port
/// 0, and none is named twice. On error the context is what was wrong and what is accepted, without
/// the flag's name.
Result<std::vector<Endpoint>> parse_endpoint_list(
    std::string_view text, std::uint16_t default_port);

}  // namespace ddprun::launcher
