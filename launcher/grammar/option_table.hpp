// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

/// Every option there is, one row each: the parser, the help, the completion and the manual page
/// are made of this table, README and tests are compared with it.
namespace ddprun::launcher {

struct OptionRow {
    /// Without the leading dashes, words joined by dashes.
    std::string_view name;
    /// What stands for its value in the help; empty: a flag.
    std::string_view value;
    std::string_view group;
    std::string_view help;
    /// Short spelling, or 0.
    char letter = 0;
    /// Its default may come from PET_<NAME>.
    bool reads_environment = true;
    /// torchrun has no option of this name. A prefix that torchrun takes for one of its own means
    /// the same here, even where it fits one of ours too.
    bool is_own = false;
    /// The one word that a flag may be given, as in --explain=network; empty: it takes none.
    std::string_view variant = {};

    bool is_flag() const { return value.empty(); }
};

/// In the order of the help; the rows of a group stand together.
std::span<const OptionRow> option_table();

/// Requires: a row has this name.
const OptionRow& option_row(std::string_view name);

}  // namespace ddprun::launcher
