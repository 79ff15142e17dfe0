// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/env_defaults.hpp"
#include "launcher/grammar/option_table.hpp"
#include "rendezvous/base/result.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The command line as text: the text given for each option, and where the worker's command begins.
/// job_spec decides what the texts mean. The grammar is torchrun's (argparse): dashes or
/// underscores, `--name value` and `--name=value`, unambiguous prefixes; the last value given for
/// an option counts. The first word that is no option starts the worker's command, which is passed
/// on unchanged; one `--` before it is dropped. CLI11 does the parsing; only the .cpp file includes
/// it.
namespace ddprun::launcher {

/// The value given for one option. A flag's text is "1" or "0".
struct Given {
    std::string text;
    /// The option as typed ("--nproc_per_node"), or the variable's name ("PET_NPROC_PER_NODE").
    std::string origin;

    bool operator==(const Given&) const = default;
};

struct Options {
    /// By the option's name in the table; an absent option was not given.
    std::map<std::string, Given, std::less<>> given;
    /// The script or program, and its arguments.
    std::vector<std::string> command;

    std::optional<Given> find(std::string_view name) const;
    bool has_flag(std::string_view name) const;
    bool operator==(const Options&) const = default;
};

/// `arguments` without the program's name. `--help` and `--version` work despite mistakes. On error
/// the context reads "flag: what was given: what is accepted".
Result<Options> parse_options(
    std::span<const std::string> arguments, const Environment& environment);

/// A program that is called as torchrun, through a link of that name, behaves as with
/// --compat=torchrun unless that option says otherwise. `called_as` is argv[0].
void use_program_name(Options& options, std::string_view called_as);

/// The options that can still be read from a command line that parse_options refused, so that the
/// refusal is reported in the requested form and file. Has no command.
Options readable_options(std::span<const std::string> arguments, const Environment& environment);

/// The help for an 80-column terminal.
std::string help_text();

}  // namespace ddprun::launcher
