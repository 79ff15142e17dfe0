// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

/// The commands and options of `ddprunctl`, one row each: the parser, the help, the completion and
/// the manual page are made of these tables.
namespace ddprun::launcher::ctl {

struct CommandRow {
    std::string_view name;
    /// As shown in the help; an argument in brackets is optional.
    std::string_view arguments;
    std::string_view help;
};

struct CtlOptionRow {
    std::string_view name;
    /// The placeholder for its value in the help; empty: a flag.
    std::string_view value;
    /// The commands that it belongs to, separated by spaces; empty: it belongs to none, like
    /// --help.
    std::string_view commands;
    std::string_view help;

    bool is_flag() const { return value.empty(); }
    bool is_of(std::string_view command) const;
};

struct ExitRow {
    int code;
    std::string_view meaning;
};

namespace exit_code {
inline constexpr int done = 0;
inline constexpr int refused = 1;
inline constexpr int usage = 2;
inline constexpr int no_such_job = 3;
inline constexpr int not_allowed = 4;
inline constexpr int no_answer = 5;
}  // namespace exit_code

std::span<const CommandRow> command_table();
std::span<const CtlOptionRow> ctl_option_table();
std::span<const ExitRow> exit_table();

std::string help_text();
/// The script for bash, zsh, fish or tcsh; none for any other shell.
std::optional<std::string> completion_script(std::string_view shell);

}  // namespace ddprun::launcher::ctl
