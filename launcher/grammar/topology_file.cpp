// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/topology_file.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace ddprun::launcher {
namespace {

bool is_digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// The entries of a list; commas in brackets separate numbers.
std::vector<std::string_view> entries_of(std::string_view list) {
    std::vector<std::string_view> entries;
    std::size_t begin = 0;
    bool is_inside = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i] == '[') is_inside = true;
        if (list[i] == ']') is_inside = false;
        if (list[i] != ',' || is_inside) continue;
        entries.push_back(list.substr(begin, i - begin));
        begin = i + 1;
    }
    entries.push_back(list.substr(begin));
    return entries;
}

/// Whether the ranges contain the number: "008" is in "001-128,130". A number has at least as many
/// digits as the beginning of its range.
bool is_in_ranges(std::string_view ranges, std::string_view digits) {
    const auto number = parse_int(digits);
    if (!number) return false;
    for (const auto range : split(ranges, ',')) {
        const auto dash = range.find('-');
        const auto first = range.substr(0, dash);
        const auto least = parse_int(first);
        const auto most =
            dash == std::string_view::npos ? least : parse_int(range.substr(dash + 1));
        if (!least || !most || *number < *least || *number > *most) continue;
        const bool is_padded = digits.size() == first.size() ||
                               (digits.size() > first.size() && digits.front() != '0');
        if (is_padded) return true;
    }
    return false;
}

/// Whether an entry matches a host: "rack[2-3]n[09-10]" and "rack2n09" do.
bool is_entry(std::string_view entry, std::string_view host) {
    const auto open = entry.find('[');
    if (open == std::string_view::npos) return entry == host;
    const auto close = entry.find(']', open);
    if (close == std::string_view::npos || !host.starts_with(entry.substr(0, open))) return false;
    const auto ranges = entry.substr(open + 1, close - open - 1);
    const auto rest = host.substr(open);
    // More digits may follow the number, so each length is tried.
    for (std::size_t size = 1; size <= rest.size() && is_digit(rest[size - 1]); ++size)
        if (is_in_ranges(ranges, rest.substr(0, size)) &&
            is_entry(entry.substr(close + 1), rest.substr(size)))
            return true;
    return false;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    for (line = trimmed(line.substr(0, line.find('#'))); !line.empty(); line = trimmed(line)) {
        words.push_back(line.substr(0, line.find_first_of(" \t\r")));
        line.remove_prefix(words.back().size());
    }
    return words;
}

/// The value of "Nodes=n[1-8]" for the key "nodes="; none when the word has another key.
std::optional<std::string_view> value_of_key(std::string_view word, std::string_view key) {
    const bool is_key =
        word.size() >= key.size() &&
        std::equal(key.begin(), key.end(), word.begin(), [](char wanted, unsigned char c) {
            return wanted == static_cast<char>(std::tolower(c));
        });
    return is_key ? std::optional{word.substr(key.size())} : std::nullopt;
}

/// A line of topology.conf.
struct Switch {
    std::string_view name;
    std::string_view nodes;
    std::string_view switches;
};

std::optional<Switch> switch_of(const std::vector<std::string_view>& words) {
    Switch found;
    for (const auto word : words) {
        if (const auto name = value_of_key(word, "switchname=")) found.name = *name;
        if (const auto name = value_of_key(word, "blockname=")) found.name = *name;
        if (const auto nodes = value_of_key(word, "nodes=")) found.nodes = *nodes;
        if (const auto switches = value_of_key(word, "switches=")) found.switches = *switches;
    }
    return found.name.empty() ? std::nullopt : std::optional{found};
}

/// The switch and the switches above it.
std::string path_of(const std::vector<Switch>& all, const Switch* lowest) {
    std::string path{lowest->name};
    for (int level = 1; level < limits::max_topology_levels; ++level) {
        const auto above = std::find_if(all.begin(), all.end(), [&](const Switch& one) {
            return is_in_host_list(one.switches, lowest->name);
        });
        if (above == all.end()) break;
        lowest = &*above;
        path = std::string{lowest->name} + "/" + path;
    }
    return path;
}

}  // namespace

bool is_in_host_list(std::string_view list, std::string_view host) {
    const auto entries = entries_of(list);
    return std::any_of(entries.begin(), entries.end(), [&](std::string_view entry) {
        return !entry.empty() && is_entry(entry, host);
    });
}

std::optional<std::string_view> topology_variable(std::string_view option) {
    constexpr std::string_view form = "env:";
    if (!option.starts_with(form)) return std::nullopt;
    return option.substr(form.size());
}

std::optional<std::string> place_in_topology(
    std::string_view file, const std::vector<std::string>& names) {
    const auto is_here = [&](std::string_view list) {
        return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            return is_in_host_list(list, name);
        });
    };
    std::vector<Switch> switches;
    for (const auto line : split(file, '\n')) {
        const auto words = words_of(line);
        if (const auto one = switch_of(words))
            switches.push_back(*one);
        else if (words.size() == 2 && is_here(words[0]))
            return std::string{trimmed(words[1], "/")};
    }
    const auto own = std::find_if(
        switches.begin(), switches.end(), [&](const Switch& one) { return is_here(one.nodes); });
    return own == switches.end() ? std::nullopt : std::optional{path_of(switches, &*own)};
}

}  // namespace ddprun::launcher
