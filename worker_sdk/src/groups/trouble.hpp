// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// Why a collective failed, as a value: it is stored once and thrown in every thread that asks.
struct Trouble {
    /// The numbers are those of ErrorCode, and cross the plugin border (plugin_abi.hpp).
    enum class Kind : int { peer_lost = 1, timeout = 2, mismatch = 3, usage = 4, other = 5 };

    Kind kind = Kind::peer_lost;
    std::string text;
    /// Who is lost, or did not come in time.
    std::vector<int> ranks{};
    /// What a timeout was in.
    std::string operation{};
    /// What a mismatch is between.
    std::string one_side{};
    std::string other_side{};

    bool operator==(const Trouble&) const = default;
};

/// Nothing, or what went wrong.
using Outcome = std::optional<Trouble>;

/// "rank 1", "ranks 1, 2 and 5".
std::string text_of(const std::vector<int>& ranks);

/// Two ranks, each with what it is at.
Trouble mismatch_between(std::string one_side, std::string other_side);

/// A mismatch, a loss or a timeout as text for the store, and back (without the operation, which is
/// each rank's own); nothing when the text is none.
std::string written(const Trouble& trouble);
std::optional<Trouble> trouble_from_text(const std::string& text);

/// As the exception of the public API.
[[noreturn]] void throw_trouble(const Trouble& trouble, int round);

}  // namespace ddprun::groups
