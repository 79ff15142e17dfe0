// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::control {

/// Where a voter is asked, as `VoterPlace::address` has it: `10.0.0.1:4000`, the peer port of a
/// node, or `witness/10.0.0.3:29400`, a `ddprun-rendezvous` that votes without being part of the
/// job.
struct VoterAddress {
    Endpoint endpoint;
    bool is_witness = false;

    std::string to_string() const;
};

/// None: it is neither.
std::optional<VoterAddress> parse_voter_address(std::string_view text);

}  // namespace ddprun::control
