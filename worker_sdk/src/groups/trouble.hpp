// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace ddprun::groups {

/// Why a collective failed, as a value: it is stored once and thrown in every thread that asks.
struct Trouble {
    /// The numbers cross the plugin border (plugin_abi.hpp).
    enum class Kind : int { peer_lost = 1, timeout = 2, mismatch = 3, usage = 4, other = 5 };

    Kind kind = Kind::peer_lost;
    std::string text;

    bool operator==(const Trouble&) const = default;
};

/// Nothing, or what went wrong.
using Outcome = std::optional<Trouble>;

/// As the exception of the public API.
[[noreturn]] void throw_trouble(const Trouble& trouble);

}  // namespace ddprun::groups
