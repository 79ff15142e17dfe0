// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/socket_table.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::string_view established = "01";
constexpr std::string_view syn_sent = "02";
constexpr std::string_view link_begin = "socket:[";

/// The kernel prints an address as 32-bit words in its own byte order.
std::string address_of(std::string_view digits) {
    std::array<std::uint32_t, 4> words{};
    const auto count = digits.size() / 8;
    if (digits.size() % 8 != 0 || (count != 1 && count != words.size())) return {};
    for (std::size_t i = 0; i < count; ++i) {
        const auto word = whole_number<std::uint32_t>(digits.substr(8 * i, 8), 16);
        if (!word) return {};
        words[i] = *word;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = count == 1 ? AF_INET : AF_INET6;
    if (::inet_ntop(family, words.data(), text.data(), text.size()) == nullptr) return {};
    return unwrap_mapped(text.data());
}

/// "0100007F:1F90"
std::optional<Endpoint> endpoint_of(std::string_view text) {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto port = whole_number<std::uint16_t>(text.substr(colon + 1), 16);
    auto host = address_of(text.substr(0, colon));
    if (!port || host.empty()) return std::nullopt;
    return Endpoint{std::move(host), *port};
}

std::string_view next_word(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const auto word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
    return word;
}

struct TableLine {
    std::string_view own, remote, state, inode;
};

TableLine table_line(std::string_view line) {
    // The columns: sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid
    // timeout inode
    std::array<std::string_view, 10> words;
    for (auto& word : words)
        word = next_word(line);
    return {words[1], words[2], words[3], words[9]};
}

}  // namespace

void add_connections_to(std::uint16_t port, std::string_view proc_net_tcp, SocketTable& table) {
    for (const auto text : split(proc_net_tcp, '\n')) {
        const auto line = table_line(text);
        if (line.state != established) continue;
        const auto remote = endpoint_of(line.remote);
        if (!remote || remote->port != port) continue;
        const auto own = endpoint_of(line.own);
        const auto inode = whole_number<std::uint64_t>(line.inode, 10);
        if (own && inode && *inode != 0) table.emplace(*inode, own->to_string());
    }
}

std::vector<TcpConnection> tcp_connections(std::string_view proc_net_tcp) {
    std::vector<TcpConnection> connections;
    for (const auto text : split(proc_net_tcp, '\n')) {
        const auto line = table_line(text);
        if (line.state != established && line.state != syn_sent) continue;
        auto remote = endpoint_of(line.remote);
        const auto inode = whole_number<std::uint64_t>(line.inode, 10);
        if (remote && inode && *inode != 0)
            connections.push_back({*inode, std::move(*remote), line.state == established});
    }
    return connections;
}

std::uint64_t socket_inode(std::string_view link) {
    if (!link.starts_with(link_begin) || !link.ends_with(']')) return 0;
    link.remove_prefix(link_begin.size());
    link.remove_suffix(1);
    return whole_number<std::uint64_t>(link, 10).value_or(0);
}

control::StoreClients store_clients(
    int round, const std::vector<WorkerSockets>& workers, const SocketTable& table) {
    control::StoreClients clients{round, {}, {}, {}};
    for (const auto& worker : workers) {
        bool is_connected = false;
        for (const auto inode : worker.inodes) {
            const auto socket = table.find(inode);
            if (socket == table.end()) continue;
            is_connected = true;
            if (clients.sockets.size() < limits::max_reported_sockets)
                clients.sockets.push_back({worker.local_rank, socket->second});
        }
        if (!is_connected && worker.is_complete) clients.unconnected.push_back(worker.local_rank);
    }
    return clients;
}

void name_by_tunnel(control::StoreClients& clients, const std::string& tunnel) {
    for (auto& [local_rank, socket] : clients.sockets)
        socket = tunnel + "/" + socket.substr(socket.rfind(':') + 1);
}

}  // namespace ddprun::agent
