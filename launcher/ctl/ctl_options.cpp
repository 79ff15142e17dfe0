// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/ctl_options.hpp"

#include "launcher/ctl/ctl_table.hpp"
#include "launcher/grammar/node_range.hpp"
#include "launcher/grammar/number.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/nearest.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/version_text.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::launcher::ctl {
namespace {

constexpr int last_signal = 64;

Failure misuse(std::string text) {
    return {system_code(EINVAL), std::move(text)};
}

/// The words of the line: those that are not options, and the value of each option.
struct Words {
    std::vector<std::string> plain;
    std::map<std::string, std::string> options;

    std::optional<std::string> value_of(const std::string& name) const {
        const auto found = options.find(name);
        return found == options.end() ? std::nullopt : std::optional{found->second};
    }
};

const CtlOptionRow* row_of(std::string_view name) {
    const auto rows = ctl_option_table();
    const auto found = std::find_if(
        rows.begin(), rows.end(), [&](const CtlOptionRow& row) { return row.name == name; });
    return found == rows.end() ? nullptr : &*found;
}

Failure unknown_option(const std::string& typed, std::string_view name) {
    std::vector<std::string_view> names;
    for (const auto& row : ctl_option_table())
        names.push_back(row.name);
    const auto meant = nearest(name, names);
    return misuse(
        typed + ": unknown option" +
        (meant ? ": did you mean --" + std::string{*meant} + "?" : std::string{}));
}

Result<Words> read_words(std::span<const std::string> arguments) {
    Words words;
    bool has_options = true;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& word = arguments[i];
        if (has_options && word == "--") {
            has_options = false;
            continue;
        }
        if (!has_options || !word.starts_with("-") || word == "-") {
            words.plain.push_back(word);
            continue;
        }
        const auto equals = word.find('=');
        const auto typed = word.substr(0, equals);
        const auto name =
            typed == "-h" ? std::string{"help"} : typed.substr(typed.starts_with("--") ? 2 : 0);
        const auto* row = row_of(name);
        if (row == nullptr) return unknown_option(typed, name);
        if (row->is_flag() && equals != std::string::npos)
            return misuse(typed + ": takes no value");
        if (row->is_flag()) {
            words.options[name] = {};
        } else if (equals != std::string::npos) {
            words.options[name] = word.substr(equals + 1);
        } else if (++i < arguments.size()) {
            words.options[name] = arguments[i];
        } else {
            return misuse(typed + ": no value given: accepted is " + std::string{row->value});
        }
    }
    return words;
}

std::string command_names() {
    const auto rows = command_table();
    return short_list(
        rows, {rows.size()}, [](const CommandRow& row) { return std::string{row.name}; });
}

Failure unknown_command(const std::string& word) {
    std::vector<std::string_view> names;
    for (const auto& row : command_table())
        names.push_back(row.name);
    const auto meant = nearest(word, names);
    return misuse(
        "'" + word + "': unknown command: " +
        (meant ? "did you mean " + std::string{*meant} + "?" : "accepted are " + command_names()));
}

Result<std::optional<int>> number_of(const Words& words, const std::string& option, int least) {
    const auto given = words.value_of(option);
    if (!given) return std::optional<int>{};
    const auto number = parse_int(*given);
    if (!number || *number < least)
        return misuse(
            "--" + option + ": '" + *given + "': accepted is a number from " +
            std::to_string(least) + " on");
    return number;
}

Result<CtlOptions> read_stop(const Words& words, CtlOptions options) {
    control::StopJob stop;
    if (const auto given = words.value_of("grace")) {
        stop.grace = parse_duration(*given);
        if (!stop.grace)
            return misuse("--grace: '" + *given + "': accepted is " + std::string{duration_forms});
    }
    options.command = stop;
    return options;
}

/// "0-3", "5"
std::optional<RankRange> parse_ranks(const std::string& text) {
    const auto dash = text.find('-');
    const auto first = parse_int(text.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_int(text.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
    return RankRange{*first, *last};
}

/// The value of --ranks.
Result<std::optional<RankRange>> ranks_of(const Words& words) {
    const auto given = words.value_of("ranks");
    if (!given) return std::optional<RankRange>{};
    const auto ranks = parse_ranks(*given);
    if (!ranks) return misuse("--ranks: '" + *given + "': accepted is a rank, or two as 0-3");
    return ranks;
}

Result<CtlOptions> read_signal(const Words& words, CtlOptions options) {
    control::SignalWorkers order;
    const auto& text = words.plain.back();
    const auto signal = parse_any_signal(text);
    if (!signal)
        return misuse("'" + text + "': no signal: accepted is a name, as USR1, or a number");
    order.signal = *signal;
    const auto rank = number_of(words, "rank", 0);
    if (!rank) return rank.error();
    const auto ranks = ranks_of(words);
    if (!ranks) return ranks.error();
    if (*rank && *ranks) return misuse("--ranks: not with --rank, since it names the ranks, too");
    order.rank = *rank;
    if (*ranks) {
        order.rank = (*ranks)->first;
        order.last_rank = (*ranks)->last;
    }
    options.command = order;
    return options;
}

Result<CtlOptions> read_stacks(const Words& words, CtlOptions options) {
    if (options.server && !options.run_id)
        return misuse("stacks: RUN_ID is missing: with --rdzv-endpoint the job must be named");
    const auto ranks = ranks_of(words);
    if (!ranks) return ranks.error();
    const bool is_native = words.value_of("native").has_value();
    if (is_native && options.server)
        return misuse(
            "--native: not with --rdzv-endpoint, since a program of this machine reads the "
            "workers: run ddprunctl on their node");
    options.command = ShowStacks{*ranks, is_native};
    return options;
}

Result<std::optional<RemoteServer>> read_server(const Words& words) {
    const auto given = words.value_of("rdzv-endpoint");
    if (!given) {
        if (words.value_of("rdzv-secret-file"))
            return misuse("--rdzv-secret-file: only with --rdzv-endpoint=HOST[:PORT]");
        return std::optional<RemoteServer>{};
    }
    if (words.value_of("pid"))
        return misuse("--pid: not with --rdzv-endpoint, since it is a process of this machine");
    if (trimmed(*given).empty())
        return misuse("--rdzv-endpoint: an empty value: accepted is HOST[:PORT]");
    auto endpoint = parse_endpoint(*given, limits::default_rendezvous_port);
    if (!endpoint) return misuse("--rdzv-endpoint: " + endpoint.error().context);
    return std::optional{RemoteServer{std::move(*endpoint), words.value_of("rdzv-secret-file")}};
}

/// `count` words come before the nodes.
CtlOptions read_drain(const Words& words, std::size_t count, CtlOptions options) {
    const auto& plain = words.plain;
    std::vector<std::string> nodes(plain.begin() + static_cast<std::ptrdiff_t>(count), plain.end());
    if (plain.front() == "drain")
        options.command =
            control::DrainNodes{std::move(nodes), words.value_of("force").has_value()};
    else
        options.command = control::UndrainNodes{std::move(nodes)};
    return options;
}

Result<CtlOptions> read_resize(const Words& words, CtlOptions options) {
    const auto range = parse_node_range(words.plain.back());
    if (!range) return misuse(range.error().context);
    options.command = control::ResizeJob{*range};
    return options;
}

/// The text to print, if only that is requested.
Result<std::optional<std::string>> text_asked_for(const Words& words) {
    if (words.value_of("help")) return std::optional{help_text()};
    if (words.value_of("version")) return std::optional{control::version_text("ddprunctl")};
    const auto shell = words.value_of("print-completion");
    if (!shell) return std::optional<std::string>{};
    auto script = completion_script(*shell);
    if (!script)
        return misuse(
            "--print-completion: '" + *shell + "': accepted are bash, zsh, fish and tcsh");
    return script;
}

bool is_repeated(std::string_view argument) {
    return argument.ends_with("...");
}

/// The words that must follow the command, according to its row: "[RUN_ID]", "RUN_ID SIGNAL",
/// "RUN_ID NODE...". A process id replaces the run id. It always does when the number of words does
/// not show whether there is a run id.
std::vector<std::string_view> wanted_words(const CommandRow& row, const Words& words) {
    auto wanted =
        row.arguments.empty() ? std::vector<std::string_view>{} : split(row.arguments, ' ');
    if (wanted.empty() || !words.value_of("pid")) return wanted;
    const bool is_left_out = words.plain.size() == wanted.size() || is_repeated(wanted.back());
    if (is_left_out) wanted.erase(wanted.begin());
    return wanted;
}

/// The first option that does not belong to the command.
std::optional<Failure> check_options(const std::string& name, const Words& words) {
    for (const auto& [option, value] : words.options) {
        const auto* row = row_of(option);
        if (row->is_of(name)) continue;
        return misuse(
            "--" + option + ": not with " + name + ", only with " + std::string{row->commands});
    }
    return std::nullopt;
}

std::optional<Failure> check_arguments(
    const CommandRow& row, const Words& words, const std::vector<std::string_view>& wanted) {
    const auto given = words.plain.size() - 1;
    const std::string name{row.name};
    const bool is_list = !wanted.empty() && is_repeated(wanted.back());
    if (given > wanted.size() && !is_list)
        return misuse(name + ": '" + words.plain.back() + "' is one word too many");
    if (given < wanted.size() && !wanted[given].starts_with('['))
        return misuse(name + ": " + std::string{wanted[given]} + " is missing");
    // An empty word, as from an unset variable of a shell, is an error: its meaning is not guessed.
    const auto empty = std::find(words.plain.begin() + 1, words.plain.end(), "");
    if (empty != words.plain.end()) {
        const auto place = static_cast<std::size_t>(empty - words.plain.begin() - 1);
        return misuse(
            name + ": an empty word: accepted is " +
            std::string{wanted[std::min(place, wanted.size() - 1)]});
    }
    if (is_list && given - wanted.size() >= limits::max_drained_nodes)
        return misuse(
            name + ": more than " + std::to_string(limits::max_drained_nodes) + " nodes at once");
    return check_options(name, words);
}

}  // namespace

std::optional<int> parse_any_signal(std::string_view text) {
    if (const auto number = parse_int(text))
        return *number >= 1 && *number <= last_signal ? number : std::nullopt;
    std::string name{text};
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
        return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
    if (!name.starts_with("SIG")) name = "SIG" + name;
    for (int signal = 1; signal <= last_signal; ++signal)
        if (signal_name(signal) == name) return signal;
    return std::nullopt;
}

Result<CtlOptions> parse_ctl_options(std::span<const std::string> arguments) {
    const auto words = read_words(arguments);
    if (!words) return words.error();
    const auto text = text_asked_for(*words);
    if (!text) return text.error();
    if (*text) return CtlOptions{PrintText{**text}};
    if (words->plain.empty()) return misuse("no command given: accepted are " + command_names());
    const auto rows = command_table();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const CommandRow& one) {
        return one.name == words->plain.front();
    });
    if (row == rows.end()) return unknown_command(words->plain.front());
    const auto wanted = wanted_words(*row, *words);
    if (auto wrong = check_arguments(*row, *words, wanted)) return *wrong;

    CtlOptions options;
    const bool has_run_id = !wanted.empty() && wanted[0].find("RUN_ID") != wanted[0].npos;
    if (has_run_id && words->plain.size() > 1) options.run_id = words->plain[1];
    options.is_json = words->value_of("json").has_value();
    const auto pid = number_of(*words, "pid", 1);
    if (!pid) return pid.error();
    options.pid = *pid;
    auto server = read_server(*words);
    if (!server) return server.error();
    options.server = std::move(*server);
    if (row->name == "stop") return read_stop(*words, std::move(options));
    if (row->name == "signal") return read_signal(*words, std::move(options));
    if (row->name == "stacks") return read_stacks(*words, std::move(options));
    if (row->name == "drain" || row->name == "undrain")
        return read_drain(*words, has_run_id ? 2 : 1, std::move(options));
    if (row->name == "resize") return read_resize(*words, std::move(options));
    if (row->name == "token") options.command = ShowToken{words->value_of("secret-file")};
    if (row->name == "status") options.command = ShowJob{};
    return options;
}

}  // namespace ddprun::launcher::ctl
