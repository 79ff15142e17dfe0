// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/agent_sockets.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace ddprun::launcher::ctl {
namespace {

constexpr std::string_view prefix = "@ddprunctl/1/";
/// The kernel's __SO_ACCEPTCON: it listens.
constexpr std::string_view listening = "00010000";

/// "1000/4711", "1000/4711-1a2b3c4d" -> 4711.
std::optional<int> pid_in(std::string_view rest) {
    const auto slash = rest.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(slash + 1);
    int pid = 0;
    const auto* const last = rest.data() + rest.size();
    const auto [end, error] = std::from_chars(rest.data(), last, pid);
    const bool is_pid = error == std::errc{} && pid > 0 && (end == last || *end == '-');
    return is_pid ? std::optional{pid} : std::nullopt;
}

/// "Num RefCount Protocol Flags Type St Inode Path", in columns that are wider at times.
std::optional<AgentSocket> socket_in(std::string_view line) {
    const auto at = line.find(prefix);
    if (at == std::string_view::npos) return std::nullopt;
    std::vector<std::string_view> columns;
    for (const auto column : split(line.substr(0, at), ' '))
        if (!column.empty()) columns.push_back(column);
    if (columns.size() != 7 || columns[3] != listening) return std::nullopt;
    const auto pid = pid_in(line.substr(at + prefix.size()));
    if (!pid) return std::nullopt;
    return AgentSocket{std::string{line.substr(at + 1)}, *pid};
}

}  // namespace

std::vector<AgentSocket> agent_sockets(std::string_view table) {
    std::vector<AgentSocket> sockets;
    for (const auto line : split(table, '\n'))
        if (auto socket = socket_in(line)) sockets.push_back(std::move(*socket));
    std::sort(sockets.begin(), sockets.end(), [](const AgentSocket& a, const AgentSocket& b) {
        return a.pid != b.pid ? a.pid < b.pid : a.name < b.name;
    });
    return sockets;
}

}  // namespace ddprun::launcher::ctl
