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

/// The command line as text: which option was given what, and where the worker's command begins.
/// What the texts mean is decided in job_spec. The grammar is torchrun's (argparse): dashes or
/// underscores, `--name value` and `--name=value`, unambiguous prefixes, the last one wins, the
/// first word that is no option starts the worker's command, which is handed through untouched;
/// one `--` before it is dropped. CLI11 parses; the .cpp alone includes it.
namespace ddprun::launcher {

/// The value given for one option. A flag's text is "1" or "0".
struct Given {
    std::string text;
    /// As typed ("--nproc_per_node") or the variable's name ("PET_NPROC_PER_NODE").
    std::string origin;

    bool operator==(const Given&) const = default;
};

struct Options {
    /// By name as in the table; absent: the option was not given.
    std::map<std::string, Given, std::less<>> given;
    /// The script or program, and its arguments.
    std::vector<std::string> command;

    std::optional<Given> find(std::string_view name) const;
    bool has_flag(std::string_view name) const;
    bool operator==(const Options&) const = default;
};

/// `arguments` without the program's name. `--help` and `--version` work beside mistakes. On error
/// the context reads "flag: what was given: what is accepted".
Result<Options> parse_options(
    std::span<const std::string> arguments, const Environment& environment);

/// A program that is called torchrun, by a link of that name, behaves as with --compat=torchrun
/// unless that option says otherwise. `called_as` is argv[0].
void use_program_name(Options& options, std::string_view called_as);

/// The readable options of a command line that parse_options refused, so that the refusal is
/// reported in the requested form and file. Has no command.
Options readable_options(std::span<const std::string> arguments, const Environment& environment);

/// For an 80 column terminal.
std::string help_text();

}  // namespace ddprun::launcher
