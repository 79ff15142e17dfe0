// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/options.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/nearest.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <sstream>
#include <utility>

namespace ddprun::launcher {
namespace {

Failure misuse(const std::string& flag, const std::string& given, const std::string& accepted) {
    return {system_code(EINVAL), flag + ": " + given + (accepted.empty() ? "" : ": " + accepted)};
}

std::string in_quotes(std::string_view text) {
    return "'" + std::string{text} + "'";
}

std::string with_dashes(std::string_view name) {
    std::string result{name};
    std::replace(result.begin(), result.end(), '_', '-');
    return result;
}

/// The names of mpirun and similar programs for the list of machines, and its name here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> host_lists{
    {{"H", "hosts"}, {"machinefile", "hostfile"}, {"machine-file", "hostfile"}}};

/// Describes where an option of the script belongs when it was found among `after`.
std::string place_of_script_option(const std::string& typed, std::span<const std::string> after) {
    const bool has_name = std::any_of(
        typed.begin(), typed.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
    if (!has_name) return {};
    const auto script = std::find_if(
        after.begin(), after.end(), [](const auto& word) { return word.ends_with(".py"); });
    return "an option of the script goes after it: ddprun " +
           (script == after.end() ? "SCRIPT" : *script) + ' ' + typed + " ...";
}

Failure unknown_option(
    const std::string& typed, const std::string& name, std::span<const std::string> after) {
    for (const auto& [other, ours] : host_lists)
        if (name == other)
            return misuse(typed, "unknown option", "did you mean --" + std::string{ours} + "?");
    std::vector<std::string_view> names;
    for (const auto& row : option_table())
        names.push_back(row.name);
    const auto meant = nearest(name, names);
    return misuse(
        typed,
        "unknown option",
        meant ? "did you mean --" + std::string{*meant} + "?"
              : place_of_script_option(typed, after));
}

/// Without the leading dashes, in the spelling of the table.
std::string name_in(const std::string& typed) {
    return with_dashes(std::string_view{typed}.substr(typed.starts_with("--") ? 2 : 1));
}

/// The rows that `typed` ("--nproc", "-m") may mean: the row of that name, else all rows with that
/// prefix, unless torchrun has exactly one with it.
std::vector<const OptionRow*> rows_named(const std::string& typed) {
    const bool is_short = !typed.starts_with("--");
    const auto name = typed == "-np" ? "n" : name_in(typed);
    std::vector<const OptionRow*> fitting;
    std::vector<const OptionRow*> torchs;
    for (const auto& row : option_table()) {
        if (is_short ? name == std::string_view{&row.letter, 1} : row.name == name) return {&row};
        if (is_short || !row.name.starts_with(name)) continue;
        fitting.push_back(&row);
        if (!row.is_own) torchs.push_back(&row);
    }
    return torchs.size() == 1 ? torchs : fitting;
}

Failure not_understood(const std::string& typed, std::span<const std::string> after) {
    const auto fitting = rows_named(typed);
    if (fitting.empty()) return unknown_option(typed, name_in(typed), after);
    std::string candidates;
    for (const auto* row : fitting)
        candidates += (candidates.empty() ? "--" : ", --") + std::string{row->name};
    return misuse(typed, "ambiguous", "could be " + candidates);
}

/// Such a word is another option, and cannot be the value of the option before it. Negative numbers
/// can.
bool looks_like_option(const std::string& word) {
    return word.size() > 1 && word[0] == '-' &&
           std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

std::size_t index_of(const OptionRow& row) {
    return static_cast<std::size_t>(&row - option_table().data());
}

/// The command line in the canonical spelling for CLI11, and the spelling that was typed.
struct Respelled {
    std::vector<std::string> words;
    /// For each row, the option as it was typed last; for a flag, with the value that it should not
    /// have.
    std::vector<std::string> typed;
};

/// Parts "--name=value", and also "-n4" and "-np4", which CLI11 would read as "-n p4".
struct Parted {
    std::string name;
    std::optional<std::string> value;
};

Parted part(const std::string& word) {
    const auto equals = word.find('=');
    if (equals != std::string::npos) return {word.substr(0, equals), word.substr(equals + 1)};
    const auto digits = word.find_first_of("0123456789");
    const auto name = word.substr(0, digits);
    if (digits != std::string::npos && (name == "-n" || name == "-np"))
        return {name, word.substr(digits)};
    return {word, std::nullopt};
}

/// Handles what CLI11 cannot: underscores, prefixes, and values that it would misread ("--name="
/// takes the next word, "--name --other" takes the option, "--flag=" is "--flag"). Reports no
/// errors: unknown words are left unchanged.
Respelled respell(std::span<const std::string> arguments) {
    Respelled result{{}, std::vector<std::string>(option_table().size())};
    auto& words = result.words;
    auto next = arguments.begin();
    while (next != arguments.end() && looks_like_option(*next) && *next != "--") {
        const auto& word = *next++;
        const auto [typed, value] = part(word);
        const auto rows = rows_named(typed);
        if (rows.size() != 1) {
            words.push_back(word);
            continue;
        }
        const auto& row = *rows.front();
        result.typed[index_of(row)] = row.is_flag() ? word : typed;
        words.push_back("--" + std::string{row.name});
        if (row.is_flag()) continue;
        if (value) {
            words.push_back(*value);
            continue;
        }
        // No word may follow, so that CLI11 reports the missing value.
        if (next == arguments.end() || looks_like_option(*next)) return result;
        words.push_back(*next++);
    }
    words.insert(words.end(), next, arguments.end());
    return result;
}

std::vector<CLI::Option*> define_options(CLI::App& app) {
    // CLI11's own help flag is off: as an ordinary flag it also works when CLI11 would report a
    // mistake first.
    app.set_help_flag();
    app.prefix_command();
    std::vector<CLI::Option*> defined(option_table().size());
    for (const auto& row : option_table()) {
        auto names = row.letter != 0 ? std::string{'-', row.letter, ','} : std::string{};
        names.append("--").append(row.name);
        auto* option = row.is_flag() ? app.add_flag(names) : app.add_option(names);
        option->take_last();
        option->group(std::string{row.group});
        option->description(std::string{row.help});
        option->option_text(std::string{row.value});
        defined[index_of(row)] = option;
    }
    return defined;
}

/// The script and its arguments: what CLI11 left over, which begins with any option unknown to it.
Result<std::vector<std::string>> worker_command(std::vector<std::string> left_over) {
    if (left_over.empty()) return left_over;
    const auto& first = left_over.front();
    if (first == "--")
        left_over.erase(left_over.begin());
    else if (first.size() > 1 && first[0] == '-')
        return not_understood(first.substr(0, first.find('=')), std::span{left_over}.subspan(1));
    return left_over;
}

/// The value that CLI11 read for one option; empty when it was not given.
Result<> add_given(
    Options& options, const OptionRow& row, const CLI::Option& read, const std::string& typed) {
    if (read.count() == 0) return {};
    // CLI11 itself splits combined letters ("-mh").
    const auto origin = typed.empty() ? "--" + std::string{row.name} : typed;
    const auto equals = origin.find('=');
    if (equals != std::string::npos) {
        const auto name = origin.substr(0, equals);
        const auto value = origin.substr(equals + 1);
        if (row.variant.empty() || value != row.variant)
            return misuse(
                name,
                in_quotes(value),
                row.variant.empty() ? "takes no value"
                                    : "accepted is no value, or " + std::string{row.variant});
        options.given[std::string{row.name}] = Given{value, name};
        return {};
    }
    options.given[std::string{row.name}] =
        Given{row.is_flag() ? "1" : read.results().back(), origin};
    return {};
}

Result<> add_environment(Options& options, const Environment& environment) {
    for (const auto& row : option_table()) {
        if (!row.reads_environment || options.find(row.name)) continue;
        const auto variable = environment_name(row.name);
        const auto value = value_of(environment, variable);
        if (!value) continue;
        if (!row.is_flag()) {
            options.given[std::string{row.name}] = Given{std::string{*value}, variable};
            continue;
        }
        const auto number = parse_int(*value);
        if (!number) return misuse(variable, in_quotes(*value), "accepted are 0 (off) and 1 (on)");
        options.given[std::string{row.name}] = Given{*number != 0 ? "1" : "0", variable};
    }
    return {};
}

/// CLI11's help wrapped at 80 columns, with the parts that CLI11 does not have.
class HelpFormat : public CLI::Formatter {
public:
    std::string make_usage(const CLI::App*, std::string) const override {
        return "usage: ddprun [OPTION]... SCRIPT [ARGUMENT]...\n\n"
               "  ddprun --standalone --nproc-per-node=4 train.py --lr 0.1\n"
               "  ddprun --nnodes=2 --rdzv-endpoint=node1:29400 --nproc-per-node=8 train.py\n\n";
    }

    /// One blank line between groups is enough.
    std::string make_group(
        std::string group,
        bool is_positional,
        std::vector<const CLI::Option*> options) const override {
        return Formatter::make_group(std::move(group), is_positional, std::move(options)).substr(1);
    }

    std::string make_option_desc(const CLI::Option* option) const override {
        std::istringstream words{option->get_description()};
        const auto width = 79 - get_column_width();
        std::string text;
        std::size_t at = 0;
        for (std::string word; words >> word;) {
            const bool fits = at == 0 || at + 1 + word.size() <= width;
            if (at > 0) text += fits ? ' ' : '\n';
            at = fits && at > 0 ? at + 1 + word.size() : word.size();
            text += word;
        }
        return text;
    }
};

}  // namespace

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
    auto [words, typed] = respell(arguments);
    CLI::App app;
    const auto read = define_options(app);
    const auto last_word = words.empty() ? std::string{} : words.back();
    bool is_value_missing = false;
    try {
        std::reverse(words.begin(), words.end());
        app.parse(std::move(words));
    } catch (const CLI::ArgumentMismatch&) {
        is_value_missing = true;
    } catch (const CLI::ParseError& error) {
        return misuse("ddprun", error.what(), "");
    }

    Options options;
    for (const auto* name : {"--help", "--version"}) {
        const auto& row = *rows_named(name).front();
        if (read[index_of(row)]->count() == 0) continue;
        options.given[std::string{row.name}] = Given{"1", typed[index_of(row)]};
        return options;
    }
    auto command = worker_command(app.remaining());
    if (!command) return command.error();
    options.command = std::move(*command);
    for (const auto& row : option_table()) {
        const auto index = index_of(row);
        if (is_value_missing && last_word == read[index]->get_name())
            return misuse(typed[index], "no value given", "accepted is " + std::string{row.value});
        if (auto added = add_given(options, row, *read[index], typed[index]); !added)
            return added.error();
    }
    if (auto added = add_environment(options, environment); !added) return added.error();
    return options;
}

void use_program_name(Options& options, std::string_view called_as) {
    constexpr std::string_view name = "torchrun";
    // npos + 1 is 0: the whole of a name without a slash.
    if (called_as.substr(called_as.rfind('/') + 1) == name)
        options.given.try_emplace("compat", Given{std::string{name}, "called torchrun"});
}

Options readable_options(std::span<const std::string> arguments, const Environment& environment) {
    const auto words = respell(arguments).words;
    Options options;
    for (auto word = words.begin(); word != words.end() && looks_like_option(*word); ++word) {
        const auto rows = rows_named(*word);
        if (rows.size() != 1) continue;
        const auto& row = *rows.front();
        if (!row.is_flag() && std::next(word) == words.end()) break;
        const auto text = row.is_flag() ? std::string{"1"} : *++word;
        options.given[std::string{row.name}] = Given{text, "--" + std::string{row.name}};
    }
    // An invalid variable hides the variables after it in the table; that is acceptable, since the
    // command line matters more.
    static_cast<void>(add_environment(options, environment));
    return options;
}

std::string help_text() {
    CLI::App app{
        "Starts SCRIPT as the workers of a distributed job and keeps the job alive.\n"
        "Everything after SCRIPT is handed to it untouched.\n"};
    app.formatter(std::make_shared<HelpFormat>());
    app.footer(
        "Each option may be spelled with dashes or underscores and be shortened while\n"
        "it stays unambiguous. Unless given, its value is read from PET_<NAME>, for\n"
        "example PET_NPROC_PER_NODE.\n"
        "Exit codes: 0 success; a failed worker's own code, 128+n for a signal; 2 usage;\n"
        "126/127 not executable/not found; 80 too few nodes joined; 81 server gone;\n"
        "82 node lost; 83 refused; 84 crash loop; 129..143 stopped by a signal.");
    define_options(app);
    return app.help();
}

}  // namespace ddprun::launcher
