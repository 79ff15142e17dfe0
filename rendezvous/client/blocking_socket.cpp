// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/blocking_socket.hpp"

#include "rendezvous/base/clock.hpp"
#include "rendezvous/client/client_error.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace ddprun::client {
namespace {

constexpr std::size_t chunk_bytes = 64 * 1024;

/// Rounded up, so that a wait never ends before its deadline; a long wait is split.
int milliseconds_until(Instant deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const std::chrono::milliseconds longest = std::chrono::hours{1};
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds{0}, longest).count());
}

std::string without_brackets(const std::string& host) {
    const bool has_them = host.size() > 2 && host.front() == '[' && host.back() == ']';
    return has_them ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

Endpoint BlockingSocket::Address::to_endpoint() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (storage.ss_family == AF_INET6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, &storage, sizeof v6);
        inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
        return {unwrap_mapped(text.data()), ntohs(v6.sin6_port)};
    }
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
}

Result<std::vector<BlockingSocket::Address>> BlockingSocket::resolve(const Endpoint& endpoint) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const auto host = without_brackets(endpoint.host);
    const auto port = std::to_string(endpoint.port);
    const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (code != 0)
        return Failure{
            Error::name_not_resolved, "resolve " + host + " (" + gai_strerror(code) + ")"};

    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    std::vector<Address> addresses;
    for (const auto* entry = found; entry != nullptr; entry = entry->ai_next) {
        Address address;
        address.size = entry->ai_addrlen;
        std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
        addresses.push_back(address);
    }
    return addresses;
}

Result<BlockingSocket> BlockingSocket::connect(const Address& address, Instant deadline) {
    const auto context = [&] { return "connect to " + address.to_endpoint().to_string(); };
    BlockingSocket socket(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.descriptor_ < 0) return Failure{system_code(errno), context()};

    const auto* target = reinterpret_cast<const sockaddr*>(&address.storage);
    if (::connect(socket.descriptor_, target, address.size) != 0) {
        // An interrupted connect continues in the kernel, like a non-blocking one.
        if (errno != EINPROGRESS && errno != EINTR) return Failure{system_code(errno), context()};
        if (!socket.is_ready(POLLOUT, deadline)) return Failure{system_code(ETIMEDOUT), context()};
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(socket.descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) return Failure{system_code(error), context()};
    }
    const int yes = 1;
    ::setsockopt(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return socket;
}

BlockingSocket::BlockingSocket(BlockingSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      chunk_(std::move(other.chunk_)) {}

BlockingSocket& BlockingSocket::operator=(BlockingSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(chunk_, other.chunk_);
    return *this;
}

BlockingSocket::~BlockingSocket() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Result<> BlockingSocket::send(std::string_view bytes, Instant deadline) {
    while (!bytes.empty()) {
        const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN) {
            if (!is_ready(POLLOUT, deadline)) return Failure{system_code(ETIMEDOUT), "send"};
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return Failure{Error::server_closed, {}};
        } else if (errno != EINTR) {
            return Failure{system_code(errno), "send"};
        }
    }
    return {};
}

Result<std::string_view> BlockingSocket::receive(Instant deadline) {
    chunk_.resize(chunk_bytes);
    for (;;) {
        const auto received = ::recv(descriptor_, chunk_.data(), chunk_.size(), 0);
        if (received > 0)
            return std::string_view{chunk_.data(), static_cast<std::size_t>(received)};
        if (received == 0 || errno == ECONNRESET) return Failure{Error::server_closed, {}};
        if (errno != EAGAIN && errno != EINTR) return Failure{system_code(errno), "receive"};
        if (errno == EAGAIN && !is_ready(POLLIN, deadline)) return std::string_view{};
    }
}

bool BlockingSocket::is_ready(short events, Instant deadline) const {
    pollfd wanted{descriptor_, events, 0};
    for (;;) {
        const int count = ::poll(&wanted, 1, milliseconds_until(deadline));
        if (count > 0) return true;
        if (count == 0 && Clock::now() >= deadline) return false;
    }
}

}  // namespace ddprun::client
