// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

/// All options, one row each. The parser, the help, the completion and the manual page are
/// generated from this table; the README and tests are compared with it.
namespace ddprun::launcher {

struct OptionRow {
    /// Without the leading dashes, words joined by dashes.
    std::string_view name;
    /// The placeholder for its value in the help; empty: a flag.
    std::string_view value;
    std::string_view group;
    std::string_view help;
    /// Short spelling, or 0.
    char letter = 0;
    /// Its default may be set by PET_<NAME>.
    bool reads_environment = true;
    /// torchrun has no option of this name. A prefix that torchrun accepts for one of its own
    /// options means the same here, even if it also matches an option of ddprun.
    bool is_own = false;
    /// The only word that a flag accepts as its value, as in --explain=network; empty: none.
    std::string_view variant = {};

    bool is_flag() const { return value.empty(); }
};

/// In the order of the help; rows of one group are adjacent.
std::span<const OptionRow> option_table();

/// Requires: a row has this name.
const OptionRow& option_row(std::string_view name);

}  // namespace ddprun::launcher
