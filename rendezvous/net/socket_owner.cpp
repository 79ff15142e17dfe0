// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/socket_owner.hpp"

#include "rendezvous/base/descriptor.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/local_users.hpp"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::net {
namespace socket_owner {
namespace {

/// The kernel's facts about a socket. A socket without an inode is no longer owned by a process.
struct Entry {
    uid_t uid = 0;
    std::uint64_t inode = 0;
};

/// The ends of a connection as the peer's socket has them: the peer's own end comes first.
struct Ends {
    Tcp::endpoint peer;
    Tcp::endpoint own;
};

std::optional<Ends> ends_of(const Tcp::socket& socket) {
    error_code ec;
    Ends ends;
    ends.peer = socket.remote_endpoint(ec);
    if (ec) return std::nullopt;
    ends.own = socket.local_endpoint(ec);
    if (ec) return std::nullopt;
    return ends;
}

void copy_address(const Tcp::endpoint& end, __be32 (&words)[4], __be16& port) {
    port = htons(end.port());
    if (end.address().is_v4()) {
        const auto bytes = end.address().to_v4().to_bytes();
        std::memcpy(words, bytes.data(), bytes.size());
    } else {
        const auto bytes = end.address().to_v6().to_bytes();
        std::memcpy(words, bytes.data(), bytes.size());
    }
}

struct Answer {
    std::optional<Entry> entry;
    /// The kernel could not be queried now, for lack of descriptors or memory.
    bool is_short = false;
};

struct Request {
    nlmsghdr header;
    inet_diag_req_v2 question;
};

Request request_for(const Ends& ends) {
    Request request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.header.nlmsg_flags = NLM_F_REQUEST;
    auto& question = request.question;
    question.sdiag_family = static_cast<__u8>(ends.peer.address().is_v4() ? AF_INET : AF_INET6);
    question.sdiag_protocol = IPPROTO_TCP;
    question.idiag_states = ~0U;
    copy_address(ends.peer, question.id.idiag_src, question.id.idiag_sport);
    copy_address(ends.own, question.id.idiag_dst, question.id.idiag_dport);
    question.id.idiag_cookie[0] = question.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return request;
}

/// No entry when the kernel does not answer such requests, or has no such socket.
Answer ask_kernel(const Ends& ends) {
    // Kept: to open and close one costs as much as the rest of a connection's begin.
    thread_local Descriptor link;
    if (!link)
        link = Descriptor{::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)};
    if (!link) return {std::nullopt, is_shortage(errno)};
    const auto request = request_for(ends);
    // A request for one socket is answered at once, before `send` returns.
    alignas(nlmsghdr) std::array<char, 4096> answer{};
    const bool is_sent = ::send(link.get(), &request, sizeof request, 0) == sizeof request;
    const auto size = is_sent ? ::recv(link.get(), answer.data(), answer.size(), MSG_DONTWAIT) : -1;
    // A later request must not get this one's answer.
    if (size <= 0) link = {};

    nlmsghdr header{};
    inet_diag_msg found{};
    if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof found))) return {};
    std::memcpy(&header, answer.data(), sizeof header);
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
    std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof found);
    // When there is no such connection, the kernel answers with a listener at that port.
    const auto& wanted = request.question.id;
    const bool is_it =
        found.id.idiag_sport == wanted.idiag_sport && found.id.idiag_dport == wanted.idiag_dport;
    if (!is_it) return {};
    return {Entry{found.idiag_uid, found.idiag_inode}};
}

/// One end of a connection in the kernel's format, such as "0100007F:1F90".
std::string table_text(const Tcp::endpoint& end) {
    __be32 words[4] = {};
    __be16 port = 0;
    copy_address(end, words, port);
    std::string text;
    std::array<char, 16> digits{};
    for (int i = 0; i < (end.address().is_v4() ? 1 : 4); ++i) {
        std::snprintf(digits.data(), digits.size(), "%08X", words[i]);
        text += digits.data();
    }
    std::snprintf(digits.data(), digits.size(), ":%04X", static_cast<unsigned>(end.port()));
    return text + digits.data();
}

Tcp::endpoint mapped_end(const Tcp::endpoint& end) {
    using boost::asio::ip::make_address_v6;
    return {make_address_v6(boost::asio::ip::v4_mapped, end.address().to_v4()), end.port()};
}

template <class Number>
Number number_in(std::string_view text) {
    Number number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

struct Table {
    bool is_short = false;
    /// The table contains the server's end. A table without it belongs to another network
    /// namespace, or is incomplete.
    bool has_own_end = false;
    std::optional<Entry> entry;
};

/// Takes time linear in the number of connections of the machine.
Table look_up(const Ends& ends, const char* path) {
    constexpr std::size_t own_column = 1;
    constexpr std::size_t peer_column = 2;
    constexpr std::size_t uid_column = 7;
    constexpr std::size_t inode_column = 9;
    Table table;
    errno = 0;
    std::ifstream file(path);
    table.is_short = !file && is_shortage(errno);
    const auto peer = table_text(ends.peer);
    const auto own = table_text(ends.own);
    for (std::string line; std::getline(file, line);) {
        if (line.find(peer) == std::string::npos) continue;
        std::vector<std::string_view> words;
        for (const auto word : split(line, ' '))
            if (!word.empty()) words.push_back(word);
        if (words.size() <= inode_column) continue;
        if (words[own_column] == own && words[peer_column] == peer) table.has_own_end = true;
        if (words[own_column] != peer || words[peer_column] != own) continue;
        table.entry = Entry{
            number_in<uid_t>(words[uid_column]), number_in<std::uint64_t>(words[inode_column])};
        break;
    }
    return table;
}

PeerOwner owner_of(const Entry& entry) {
    if (entry.inode == 0) return {PeerOwner::Kind::gone, 0};
    // Checked first: this process's own user may have no uid in this namespace.
    const auto is_one = means_one_user(entry.uid);
    if (!is_one) return {PeerOwner::Kind::gone, entry.uid};
    if (!*is_one) return {PeerOwner::Kind::unknown, entry.uid};
    const bool is_own = entry.uid == ::geteuid() || entry.uid == 0;
    return {is_own ? PeerOwner::Kind::this_user : PeerOwner::Kind::other_user, entry.uid};
}

}  // namespace
}  // namespace socket_owner

PeerOwner peer_owner(const Tcp::socket& socket) {
    using namespace socket_owner;
    const auto ends = ends_of(socket);
    if (!ends) return {PeerOwner::Kind::gone, 0};
    const auto answer = ask_kernel(*ends);
    if (answer.entry) return owner_of(*answer.entry);
    if (answer.is_short) return {PeerOwner::Kind::gone, 0};
    return peer_owner_by_table(socket);
}

PeerOwner peer_owner_by_table(const Tcp::socket& socket) {
    using namespace socket_owner;
    const auto ends = ends_of(socket);
    if (!ends) return {PeerOwner::Kind::gone, 0};
    const bool is_v4 = ends->peer.address().is_v4();
    const auto table = look_up(*ends, is_v4 ? "/proc/net/tcp" : "/proc/net/tcp6");
    if (table.entry) return owner_of(*table.entry);
    // The peer may have an IPv6 socket that uses IPv4.
    const auto mapped =
        is_v4 ? look_up({mapped_end(ends->peer), mapped_end(ends->own)}, "/proc/net/tcp6") : table;
    if (mapped.entry) return owner_of(*mapped.entry);
    const bool is_short = table.is_short || mapped.is_short;
    // A connection that was reset meanwhile is in no table.
    const bool is_gone = is_short || table.has_own_end || !ends_of(socket);
    return {is_gone ? PeerOwner::Kind::gone : PeerOwner::Kind::unknown, 0};
}

}  // namespace ddprun::net
