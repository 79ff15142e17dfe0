// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.hpp"

#include "launcher/nearest.hpp"
#include "launcher/number.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace ddprun::launcher {
namespace {

constexpr std::string_view group_job = "The job";
constexpr std::string_view group_rendezvous = "How the nodes find each other";
constexpr std::string_view group_failure = "When something fails";
constexpr std::string_view group_command = "What the workers run";
constexpr std::string_view group_about = "About ddprun";

constexpr std::array option_rows{
    OptionRow{"nnodes", "N|MIN:MAX[+SPARES]", group_job, "number of nodes, or a range (default 1)"},
    OptionRow{"nproc-per-node", "N|auto|gpu|cpu", group_job, "workers on this node (default 1)"},
    OptionRow{
        "standalone", "", group_job, "one node, own free port, random id; needs nothing else"},
    OptionRow{"role", "NAME", group_job, "role of this node's workers (default 'default')"},

    OptionRow{
        "rdzv-endpoint",
        "HOST[:PORT]",
        group_rendezvous,
        "where the nodes meet, the same on all (default port 29400); the node that owns the "
        "address serves"},
    OptionRow{"rdzv-backend", "c10d|static", group_rendezvous, "both mean ddprun's own rendezvous"},
    OptionRow{"rdzv-id", "ID", group_rendezvous, "name of the job, the same on all nodes"},
    OptionRow{
        "rdzv-conf",
        "KEY=VALUE,...",
        group_rendezvous,
        "join_timeout, last_call_timeout, keep_alive_interval, keep_alive_max_attempt (seconds, "
        "count), is_host"},
    OptionRow{"node-rank", "N", group_rendezvous, "place of this node among the nodes"},
    OptionRow{
        "local-addr",
        "ADDR|IFACE|CIDR",
        group_rendezvous,
        "how the other nodes reach this one (default: its end of the connection to the endpoint)"},
    OptionRow{
        "port-range", "FIRST-LAST", group_rendezvous, "ports to listen on (default 20000-29399)"},

    OptionRow{
        "max-restarts",
        "N",
        group_failure,
        "restarts of the whole job before it fails (default 0)"},
    OptionRow{
        "shutdown-timeout",
        "SECONDS",
        group_failure,
        "between SIGTERM and SIGKILL of a worker (default 30)"},
    OptionRow{
        "monitor-interval",
        "SECONDS",
        group_failure,
        "accepted and not needed: nothing here is polled"},

    OptionRow{"module", "", group_command, "the script is a module name, as in python -m", 'm'},
    OptionRow{
        "no-python", "", group_command, "the script is a program: run it without an interpreter"},
    OptionRow{
        "python",
        "PATH",
        group_command,
        "interpreter (default: PYTHON_EXEC, the active environment's, python3 on PATH)"},

    OptionRow{
        "log-level",
        "LEVEL",
        group_about,
        "error, warning, info, debug or trace (default: LOGLEVEL, else warning)"},
    OptionRow{
        "explain", "", group_about, "print the job as understood and why, then exit", 0, false},
    OptionRow{"version", "", group_about, "print the version, then exit", 0, false},
    OptionRow{"help", "", group_about, "print this, then exit", 'h', false},
};

/// Options of torchrun that are understood well enough to say that they are missing.
constexpr std::array<std::string_view, 17> not_yet{
    "master-addr",
    "master-port",
    "redirects",
    "tee",
    "log-dir",
    "local-ranks-filter",
    "duplicate-stdout-filters",
    "duplicate-stderr-filters",
    "log-line-prefix-template",
    "run-path",
    "start-method",
    "event-log-handler",
    "logs-specs",
    "numa-binding",
    "signals-to-handle",
    "virtual-local-rank",
    "print-completion",
};

Failure misuse(const std::string& flag, const std::string& given, const std::string& accepted) {
    return {system_code(EINVAL), flag + ": " + given + (accepted.empty() ? "" : ": " + accepted)};
}

std::string quoted(std::string_view text) {
    return "'" + std::string{text} + "'";
}

std::string with_dashes(std::string_view name) {
    std::string result{name};
    std::replace(result.begin(), result.end(), '_', '-');
    return result;
}

Failure unknown_option(const std::string& typed, const std::string& name) {
    if (std::find(not_yet.begin(), not_yet.end(), name) != not_yet.end())
        return misuse(
            typed,
            "torchrun's option, not supported yet",
            name.starts_with("master") ? "use --rdzv-endpoint=HOST:PORT" : "leave it out");
    std::vector<std::string_view> names;
    for (const auto& row : option_rows)
        names.push_back(row.name);
    const auto meant = nearest(name, names);
    return misuse(
        typed, "unknown option", meant ? "did you mean --" + std::string{*meant} + "?" : "");
}

/// The row that `typed` ("--nproc", "-m") names, exactly or as the only one it is a prefix of.
Result<const OptionRow*> find_row(const std::string& typed) {
    if (!typed.starts_with("--")) {
        for (const auto& row : option_rows)
            if (row.letter != 0 && typed.substr(1) == std::string_view{&row.letter, 1}) return &row;
        return unknown_option(typed, typed.substr(1));
    }
    const auto name = with_dashes(std::string_view{typed}.substr(2));
    std::vector<const OptionRow*> fitting;
    for (const auto& row : option_rows) {
        if (row.name == name) return &row;
        if (row.name.starts_with(name)) fitting.push_back(&row);
    }
    if (fitting.size() == 1) return fitting.front();
    if (fitting.empty()) return unknown_option(typed, name);
    std::string candidates;
    for (const auto* row : fitting)
        candidates += (candidates.empty() ? "--" : ", --") + std::string{row->name};
    return misuse(typed, "ambiguous", "could be " + candidates);
}

/// A word that cannot be the value of an option before it: another option. Negative numbers can.
bool looks_like_option(const std::string& word) {
    return word.size() > 1 && word[0] == '-' &&
           std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

Result<> add_environment(Options& options, const Environment& environment) {
    for (const auto& row : option_rows) {
        if (!row.reads_environment || options.find(row.name)) continue;
        const auto variable = environment_name(row.name);
        const auto value = value_of(environment, variable);
        if (!value) continue;
        if (!row.is_flag()) {
            options.given[std::string{row.name}] = Given{std::string{*value}, variable};
            continue;
        }
        const auto number = parse_int(*value);
        if (!number) return misuse(variable, quoted(*value), "accepted are 0 (off) and 1 (on)");
        options.given[std::string{row.name}] = Given{*number != 0 ? "1" : "0", variable};
    }
    return {};
}

/// Appends `text` word by word, each new line under the column where the text began.
void append_wrapped(std::string& out, std::string_view text, std::size_t column) {
    constexpr std::size_t width = 79;
    auto at = column;
    while (!text.empty()) {
        const auto word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (at > column && at + 1 + word.size() > width) {
            out += '\n';
            out.append(column, ' ');
            at = column;
        } else if (at > column) {
            out += ' ';
            ++at;
        }
        out += word;
        at += word.size();
    }
    out += '\n';
}

}  // namespace

std::span<const OptionRow> option_table() {
    return option_rows;
}

std::optional<Given> Options::find(std::string_view name) const {
    const auto found = given.find(name);
    if (found == given.end()) return std::nullopt;
    return found->second;
}

bool Options::has_flag(std::string_view name) const {
    const auto flag = find(name);
    return flag && flag->text == "1";
}

Result<Options> parse_options(
    std::span<const std::string> arguments, const Environment& environment) {
    Options options;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& word = arguments[i];
        if (word.size() < 2 || word[0] != '-') {
            options.command.assign(
                arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
            break;
        }
        if (word == "--") {
            options.command.assign(
                arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
            break;
        }
        const auto equals = word.find('=');
        const auto typed = word.substr(0, equals);
        const auto row = find_row(typed);
        if (!row) return row.error();
        const std::string name{(*row)->name};
        if ((*row)->is_flag()) {
            if (equals != std::string::npos)
                return misuse(typed, quoted(word.substr(equals + 1)), "takes no value");
            options.given[name] = Given{"1", typed};
            if (name == "help" || name == "version") return options;
            continue;
        }
        if (equals != std::string::npos) {
            options.given[name] = Given{word.substr(equals + 1), typed};
            continue;
        }
        if (i + 1 == arguments.size() || looks_like_option(arguments[i + 1]))
            return misuse(typed, "no value given", "accepted is " + std::string{(*row)->value});
        options.given[name] = Given{arguments[++i], typed};
    }
    if (auto added = add_environment(options, environment); !added) return added.error();
    return options;
}

std::string help_text() {
    std::string text =
        "usage: ddprun [OPTION]... SCRIPT [ARGUMENT]...\n\n"
        "Starts SCRIPT as the workers of a distributed job and keeps the job alive.\n"
        "Everything after SCRIPT is handed to it untouched.\n\n"
        "  ddprun --standalone --nproc-per-node=4 train.py --lr 0.1\n"
        "  ddprun --nnodes=2 --rdzv-endpoint=node1:29400 --nproc-per-node=8 train.py\n";
    std::string_view group;
    for (const auto& row : option_rows) {
        if (row.group != group) {
            group = row.group;
            text += "\n" + std::string{group} + ":\n";
        }
        constexpr std::size_t column = 30;
        std::string left = row.letter != 0 ? std::string{"  -"} + row.letter + ", --" : "  --";
        left += row.name;
        if (!row.is_flag()) left += " " + std::string{row.value};
        if (left.size() + 2 > column) {
            text += left + "\n";
            left.clear();
        }
        text += left;
        text.append(column - left.size(), ' ');
        append_wrapped(text, row.help, column);
    }
    text +=
        "\nEach option may be spelled with dashes or underscores and be shortened while\n"
        "it stays unambiguous. Unless given, its value is read from PET_<NAME>, for\n"
        "example PET_NPROC_PER_NODE.\n"
        "Exit codes: 0 success; a failed worker's own code, 128+n for a signal; 2 usage;\n"
        "126/127 not executable/not found; 80 nobody joined in time; 81 server gone;\n"
        "82 node lost; 83 refused; 84 crash loop; 129..143 stopped by a signal.\n";
    return text;
}

}  // namespace ddprun::launcher
