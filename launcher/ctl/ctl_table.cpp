// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/ctl_table.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher::ctl {
namespace {

constexpr std::size_t help_column = 26;

constexpr std::array command_rows{
    CommandRow{"ps", "", "list the jobs of this user that have a node on this machine"},
    CommandRow{"status", "[RUN_ID]", "show a job: its state and reason, its nodes and their ranks"},
    CommandRow{
        "stop", "RUN_ID", "end a job on every node, as one SIGTERM to each of its ddprun would"},
    CommandRow{
        "signal",
        "RUN_ID SIGNAL",
        "send a signal to the workers of a job on this machine (with --rdzv-endpoint on all)"},
    CommandRow{
        "stacks",
        "[RUN_ID]",
        "show what the workers of a job on this machine (with --rdzv-endpoint on all) do, and "
        "their Python stacks"},
    CommandRow{
        "drain",
        "RUN_ID NODE...",
        "take nodes out of a job, as SIGTERM to their ddprun would, and keep their hosts out"},
    CommandRow{"undrain", "RUN_ID NODE...", "let nodes of drained hosts into a job again"},
    CommandRow{
        "resize",
        "RUN_ID MIN:MAX[+SPARES]",
        "change how many nodes a job has; nodes that wait join, or the last ones stand by"},
    CommandRow{"token", "", "print what reads /status and /metrics of servers with a secret"},
};

constexpr std::array option_rows{
    CtlOptionRow{
        "json", "", "ps status stop signal stacks drain undrain resize token", "print JSON"},
    CtlOptionRow{
        "pid",
        "PID",
        "status stop signal stacks drain undrain resize",
        "the ddprun of this process id; RUN_ID may be left out then, and is with drain and "
        "undrain"},
    CtlOptionRow{
        "grace",
        "DURATION",
        "stop",
        "between SIGTERM and SIGKILL, instead of the job's --shutdown-timeout; not longer"},
    CtlOptionRow{"rank", "RANK", "signal", "the worker of this rank alone"},
    CtlOptionRow{
        "ranks", "FIRST-LAST", "signal stacks", "the workers of these ranks alone, as 0-3 or 5"},
    CtlOptionRow{
        "native",
        "",
        "stacks",
        "the stacks of C and C++, too, by py-spy or gdb, which stop a worker while they read"},
    CtlOptionRow{
        "force", "", "drain", "also where too few nodes would be left, or the job would end"},
    CtlOptionRow{
        "secret-file",
        "PATH",
        "token",
        "of the secret in this file; else of DDPRUN_SECRET, or of the file of --secure"},
    CtlOptionRow{
        "rdzv-endpoint",
        "HOST[:PORT]",
        "ps status stop signal stacks drain undrain resize",
        "the jobs of the rendezvous server there, from any machine, with their secret"},
    CtlOptionRow{
        "rdzv-secret-file",
        "PATH",
        "ps status stop signal stacks drain undrain resize",
        "with --rdzv-endpoint: the job's secret; else DDPRUN_SECRET, or the file of --secure"},
    CtlOptionRow{"help", "", "", "print this help, then exit"},
    CtlOptionRow{"version", "", "", "print the version, then exit"},
    CtlOptionRow{
        "print-completion", "bash|zsh|fish|tcsh", "", "print a completion script, then exit"},
};

constexpr std::array exit_rows{
    ExitRow{exit_code::done, "done"},
    ExitRow{exit_code::refused, "refused: the job cannot do that now"},
    ExitRow{exit_code::usage, "wrong use"},
    ExitRow{exit_code::no_such_job, "no such job on this machine or server"},
    ExitRow{
        exit_code::not_allowed,
        "not allowed: the job of another user, or the secret is not that of the job"},
    ExitRow{exit_code::no_answer, "no answer"},
};

std::string line(std::string left, std::string_view help) {
    left = "  " + left;
    left.resize(std::max(left.size() + 1, help_column), ' ');
    return left + std::string{help} + "\n";
}

std::string spaced_commands() {
    std::string words;
    for (const auto& row : command_rows)
        words += (words.empty() ? "" : " ") + std::string{row.name};
    return words;
}

std::string options_of(std::string_view command) {
    std::string words;
    for (const auto& row : option_rows)
        if (row.is_of(command)) words += (words.empty() ? "--" : " --") + std::string{row.name};
    return words;
}

std::string bash_script() {
    std::string cases;
    for (const auto& row : command_rows)
        cases += "    " + std::string{row.name} + ") words='" + options_of(row.name) + "' ;;\n";
    return "# bash completion for ddprunctl: source it, or save it as\n"
           "# ~/.local/share/bash-completion/completions/ddprunctl\n"
           "_ddprunctl() {\n"
           "    local words='" +
           spaced_commands() + ' ' + options_of("") +
           "'\n"
           "    if ((COMP_CWORD > 1)); then\n"
           "    case ${COMP_WORDS[1]} in\n" +
           cases +
           "    esac\n"
           "    fi\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
           "}\n"
           "complete -F _ddprunctl ddprunctl\n";
}

std::string zsh_script() {
    std::string cases;
    for (const auto& row : command_rows)
        cases += "    " + std::string{row.name} + ") compadd -- " + options_of(row.name) + " ;;\n";
    return "#compdef ddprunctl\n"
           "# zsh completion for ddprunctl: save it as _ddprunctl in a folder of $fpath\n"
           "_ddprunctl() {\n"
           "    if ((CURRENT == 2)); then compadd -- " +
           spaced_commands() + ' ' + options_of("") +
           "; return; fi\n"
           "    case $words[2] in\n" +
           cases +
           "    esac\n"
           "}\n"
           "if [ \"$funcstack[1]\" = _ddprunctl ]; then _ddprunctl \"$@\"; else compdef _ddprunctl "
           "ddprunctl; fi\n";
}

std::string fish_script() {
    std::string text =
        "# fish completion for ddprunctl: save it as ~/.config/fish/completions/ddprunctl.fish\n"
        "complete -c ddprunctl -f\n";
    for (const auto& row : command_rows)
        text += "complete -c ddprunctl -n __fish_use_subcommand -a " + std::string{row.name} +
                " -d '" + std::string{row.help} + "'\n";
    for (const auto& row : option_rows) {
        text += "complete -c ddprunctl -l " + std::string{row.name} + (row.is_flag() ? "" : " -x");
        text += row.commands.empty()
                    ? " -n __fish_use_subcommand"
                    : " -n '__fish_seen_subcommand_from " + std::string{row.commands} + "'";
        // In this shell's single quotes a quote needs escaping.
        std::string help;
        for (const char c : row.help)
            help += c == '\'' ? std::string{"\\'"} : std::string{c};
        text += " -d '" + help + "'\n";
    }
    return text;
}

std::string tcsh_script() {
    return "# tcsh completion for ddprunctl: source it\n"
           "complete ddprunctl 'p/1/(" +
           spaced_commands() + ")/'\n";
}

}  // namespace

bool CtlOptionRow::is_of(std::string_view command) const {
    const auto names = split(commands, ' ');
    return std::find(names.begin(), names.end(), command) != names.end();
}

std::span<const CommandRow> command_table() {
    return command_rows;
}

std::span<const CtlOptionRow> ctl_option_table() {
    return option_rows;
}

std::span<const ExitRow> exit_table() {
    return exit_rows;
}

std::string help_text() {
    std::string text =
        "Shows and controls the jobs that ddprun runs on this machine, or of a server.\n"
        "Usage: ddprunctl COMMAND [OPTION]...\n\n"
        "Commands:\n";
    for (const auto& row : command_rows)
        text += line(
            std::string{row.name} + (row.arguments.empty() ? "" : " ") + std::string{row.arguments},
            row.help);
    text += "\nOptions:\n";
    for (const auto& row : option_rows) {
        auto left = "--" + std::string{row.name};
        if (!row.is_flag()) left += "=" + std::string{row.value};
        text += line(
            std::move(left),
            std::string{row.help} + (row.commands.empty() || row.name == "json"
                                         ? ""
                                         : " (" + std::string{row.commands} + ")"));
    }
    text += "\nExit codes:\n";
    for (const auto& row : exit_rows)
        text += line(std::to_string(row.code), row.meaning);
    return text;
}

std::optional<std::string> completion_script(std::string_view shell) {
    if (shell == "bash") return bash_script();
    if (shell == "zsh") return zsh_script();
    if (shell == "fish") return fish_script();
    if (shell == "tcsh") return tcsh_script();
    return std::nullopt;
}

}  // namespace ddprun::launcher::ctl
