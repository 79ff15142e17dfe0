// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The completion script of a shell ("bash", "zsh", "fish", "tcsh"), made of the option table:
/// options in their dashed spelling, the possible words of an option's value, and files for the
/// script. Empty: unknown shell.
std::optional<std::string> completion_script(std::string_view shell);

}  // namespace ddprun::launcher
