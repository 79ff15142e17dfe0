// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/kubernetes.hpp"

#include "launcher/grammar/number.hpp"

#include <vector>

namespace ddprun::launcher {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
    line = line.substr(0, line.find('#'));
    constexpr std::string_view blanks = " \t\r";
    std::vector<std::string_view> words;
    while (true) {
        const auto begin = line.find_first_not_of(blanks);
        if (begin == std::string_view::npos) return words;
        line.remove_prefix(begin);
        words.push_back(line.substr(0, line.find_first_of(blanks)));
        line.remove_prefix(words.back().size());
    }
}

/// The fully qualified name for this one on its line, or the name itself if it has dots; else
/// empty.
std::string_view full_name(std::string_view host_name, std::string_view hosts) {
    if (host_name.find('.') != std::string_view::npos) return host_name;
    while (!hosts.empty()) {
        const auto line = hosts.substr(0, hosts.find('\n'));
        hosts.remove_prefix(line.size() + (line.size() < hosts.size() ? 1 : 0));
        const auto words = words_of(line);
        for (std::size_t i = 1; i < words.size(); ++i)
            if (words[i].starts_with(host_name) &&
                words[i].substr(host_name.size()).starts_with('.'))
                return words[i];
    }
    return {};
}

}  // namespace

std::optional<IndexedPod> read_indexed_pod(
    const Environment& environment,
    std::string_view host_name,
    const std::function<std::string()>& read_hosts) {
    const auto text = value_of(environment, "JOB_COMPLETION_INDEX");
    const auto index = text ? parse_int(*text) : std::nullopt;
    if (!index || *index < 0 || value_of(environment, "TORCHELASTIC_RUN_ID")) return std::nullopt;
    IndexedPod pod;
    pod.index = *index;
    const auto label = host_name.substr(0, host_name.find('.'));
    const auto suffix = "-" + std::to_string(*index);
    // With hostNetwork the host name is the machine's.
    if (!label.ends_with(suffix)) return pod;
    pod.job = label.substr(0, label.size() - suffix.size());
    const auto hosts = read_hosts ? read_hosts() : std::string{};
    const auto own = full_name(host_name, hosts);
    if (!own.empty()) pod.first_host = pod.job + "-0" + std::string{own.substr(label.size())};
    return pod;
}

}  // namespace ddprun::launcher
