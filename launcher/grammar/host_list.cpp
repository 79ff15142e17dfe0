// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/host_list.hpp"

#include "launcher/grammar/number.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

namespace ddprun::launcher {
namespace host_list {
namespace {

/// A mention of a host, with its number of workers if there is one.
struct Mention {
    Host host;
    int times = 1;
    bool has_number = false;
};

Failure wrong(std::string_view given, const std::string& accepted) {
    return {system_code(EINVAL), "'" + std::string{given} + "': " + accepted};
}

std::string accepted_workers() {
    return "accepted are 1 to " + std::to_string(limits::max_workers_per_node) + " workers";
}

/// A name must not begin with a dash, since ssh would read it as an option.
bool is_name(std::string_view name) {
    return !name.empty() && name.front() != '-' && name.size() <= limits::max_name_bytes &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
               return std::isalnum(c) != 0 || std::string_view{"-._@:%+"}.find(
                                                  static_cast<char>(c)) != std::string_view::npos;
           });
}

Result<int> workers_of(std::string_view word, std::string_view number) {
    const auto count = parse_int(number);
    if (count && *count >= 1 && *count <= limits::max_workers_per_node) return *count;
    return wrong(word, accepted_workers());
}

/// A bare IPv6 address has no brackets, so no number can follow.
bool is_bare_v6(std::string_view word) {
    constexpr auto separators = 7;
    return word.find("::") != std::string_view::npos ||
           std::count(word.begin(), word.end(), ':') == separators;
}

/// "b:4", "[fe80::1]:4"
Result<Host> parse_host(std::string_view word) {
    const auto no_host = [&] { return wrong(word, "accepted are NAME and NAME:WORKERS"); };
    auto name = word;
    std::optional<std::string_view> number;
    const auto user = word.substr(0, word.find('[') + 1);
    const auto bracket = word.find(']');
    const bool has_brackets = user == "[" || user.ends_with("@[");
    if (has_brackets && bracket == std::string_view::npos) return no_host();
    if (const auto colon = word.rfind(':');
        colon != std::string_view::npos && (has_brackets ? colon > bracket : !is_bare_v6(word))) {
        name = word.substr(0, colon);
        number = word.substr(colon + 1);
    }
    std::string plain{name};
    if (has_brackets) {
        if (!name.ends_with(']')) return no_host();
        plain.pop_back();
        plain.erase(user.size() - 1, 1);
    } else if (name.find(':') != std::string_view::npos && !is_bare_v6(name)) {
        return no_host();
    }
    if (!is_name(plain)) return no_host();
    if (!number) return Host{plain, std::nullopt};
    const auto count = workers_of(word, *number);
    if (!count) return count.error();
    return Host{plain, *count};
}

/// Hosts in the order of their first mentions.
struct Mentions {
    std::vector<Mention> all;
    std::map<std::string, std::size_t> places;
};

/// Adds to an earlier mention of the same host.
void add(Mentions& mentions, const Host& host) {
    const auto [place, is_new] = mentions.places.try_emplace(host.name, mentions.all.size());
    if (is_new) {
        mentions.all.push_back({host, 1, host.workers.has_value()});
        return;
    }
    auto& known = mentions.all[place->second];
    ++known.times;
    known.has_number |= host.workers.has_value();
    // Too many workers are refused later; a long file must not overflow the sum before that.
    if (host.workers)
        known.host.workers = std::min(
            known.host.workers.value_or(0) + *host.workers, limits::max_workers_per_node + 1);
}

Result<std::vector<Host>> hosts_of(std::vector<Mention> mentions) {
    if (mentions.empty()) return Failure{system_code(EINVAL), "it names no host"};
    if (mentions.size() > static_cast<std::size_t>(limits::max_nodes_per_job))
        return Failure{
            system_code(EINVAL),
            "accepted are up to " + std::to_string(limits::max_nodes_per_job) + " hosts"};
    std::vector<Host> hosts;
    for (auto& mention : mentions) {
        if (!mention.has_number && mention.times > 1) mention.host.workers = mention.times;
        if (mention.host.workers.value_or(1) > limits::max_workers_per_node)
            return wrong(mention.host.name, accepted_workers());
        hosts.push_back(std::move(mention.host));
    }
    return hosts;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    constexpr std::string_view blanks = " \t\r";
    for (auto at = line.find_first_not_of(blanks); at != line.npos;
         at = line.find_first_not_of(blanks)) {
        line.remove_prefix(at);
        words.push_back(line.substr(0, line.find_first_of(blanks)));
        line.remove_prefix(words.back().size());
    }
    return words;
}

/// What follows the name in Open MPI's files.
Result<> read_attribute(Host& host, std::string_view word) {
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    if (equals != std::string_view::npos && name == "slots") {
        const auto count = workers_of(word, word.substr(equals + 1));
        if (!count) return count.error();
        host.workers = *count;
        return {};
    }
    if (name == "max_slots" || name == "max-slots") return {};
    return wrong(word, "accepted after a name is slots=WORKERS");
}

}  // namespace
}  // namespace host_list

Result<std::vector<Host>> parse_host_list(std::string_view text) {
    using namespace host_list;
    Mentions mentions;
    for (const auto part : split(text, ',')) {
        const auto host = parse_host(trimmed(part));
        if (!host) return host.error();
        add(mentions, *host);
    }
    return hosts_of(std::move(mentions.all));
}

Result<std::vector<Host>> parse_host_file(std::string_view text) {
    using namespace host_list;
    Mentions mentions;
    int number = 0;
    const auto in_line = [&](const Failure& failure) {
        return Failure{failure.code, "line " + std::to_string(number) + ": " + failure.context};
    };
    for (const auto line : split(text, '\n')) {
        ++number;
        const auto words = words_of(line.substr(0, line.find('#')));
        if (words.empty()) continue;
        auto host = parse_host(words.front());
        if (!host) return in_line(host.error());
        for (std::size_t i = 1; i < words.size(); ++i)
            if (auto read = read_attribute(*host, words[i]); !read) return in_line(read.error());
        add(mentions, *host);
    }
    return hosts_of(std::move(mentions.all));
}

}  // namespace ddprun::launcher
