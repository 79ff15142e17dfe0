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
/// The kernel's __SO_ACCEPTCON flag: the socket listens.
constexpr std::string_view listening = "00010000";

/// Parses a number at the beginning of `text` and removes it.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
    Number number{};
    const auto* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

/// "ddprunctl/1/1000/4711", "ddprunctl/1/1000/4711-1a2b3c4d"
std::optional<AgentSocket> socket_of(std::string_view name, std::string_view rest) {
    const auto user = take_number<unsigned>(rest);
    if (!user || !rest.starts_with('/')) return std::nullopt;
    rest.remove_prefix(1);
    const auto pid = take_number<int>(rest);
    const bool is_agent = pid && *pid > 0 && (rest.empty() || rest.starts_with('-'));
    if (!is_agent) return std::nullopt;
    return AgentSocket{std::string{name}, *pid, *user};
}

/// A line with the columns "Num RefCount Protocol Flags Type St Inode Path", whose width varies.
std::optional<AgentSocket> socket_in(std::string_view line) {
    const auto at = line.find(prefix);
    if (at == std::string_view::npos) return std::nullopt;
    std::vector<std::string_view> columns;
    for (const auto column : split(line.substr(0, at), ' '))
        if (!column.empty()) columns.push_back(column);
    if (columns.size() != 7 || columns[3] != listening) return std::nullopt;
    return socket_of(line.substr(at + 1), line.substr(at + prefix.size()));
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
