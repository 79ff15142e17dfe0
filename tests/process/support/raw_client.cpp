// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/raw_client.hpp"

#include "tests/process/support/wait.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>

namespace ddprun::test {
namespace {

int connected_socket(std::uint16_t port, const std::string& address) {
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    const bool is_v6 = address.find(':') != std::string::npos;
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    ::inet_pton(
        is_v6 ? AF_INET6 : AF_INET,
        address.c_str(),
        is_v6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr);
    const int socket = ::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto* where =
        is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
    const auto size = static_cast<socklen_t>(is_v6 ? sizeof v6 : sizeof v4);
    if (::connect(socket, where, size) == 0) return socket;
    ::close(socket);
    return -1;
}

}  // namespace

RawClient::RawClient(std::uint16_t port, const std::string& address)
    : socket_(connected_socket(port, address)) {
    if (socket_ < 0) throw std::runtime_error("cannot connect to port " + std::to_string(port));
}

RawClient::~RawClient() {
    ::close(socket_);
}

bool RawClient::can_connect(std::uint16_t port, const std::string& address) {
    const int socket = connected_socket(port, address);
    if (socket < 0) return false;
    ::close(socket);
    return true;
}

RawClient& RawClient::say(std::string_view bytes) {
    while (!bytes.empty()) {
        pollfd ready{socket_, POLLOUT, 0};
        const std::chrono::milliseconds longest = fact_timeout;
        if (::poll(&ready, 1, static_cast<int>(longest.count())) == 0)
            throw std::runtime_error("the server does not read");
        const auto size = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        // That the server has ended the connection is detected when reading its end.
        if (size < 0 && errno != EAGAIN && errno != EINTR) return *this;
        if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
    }
    return *this;
}

bool RawClient::hear_more() {
    pollfd ready{socket_, POLLIN, 0};
    const std::chrono::milliseconds longest = fact_timeout;
    if (::poll(&ready, 1, static_cast<int>(longest.count())) == 0)
        throw std::runtime_error("the server says nothing more, after \"" + heard_ + '"');
    std::array<char, 4096> chunk{};
    const auto size = ::recv(socket_, chunk.data(), chunk.size(), 0);
    was_reset_ = size < 0 && errno == ECONNRESET;
    if (size <= 0) return false;
    heard_.append(chunk.data(), static_cast<std::size_t>(size));
    return true;
}

std::string RawClient::hear(std::size_t bytes) {
    while (heard_.size() < bytes && hear_more())
        ;
    const auto result = heard_.substr(0, bytes);
    heard_.erase(0, bytes);
    return result;
}

std::string RawClient::hear_to_the_end() {
    while (hear_more())
        ;
    return std::exchange(heard_, {});
}

bool RawClient::can_hear() const {
    pollfd ready{socket_, POLLIN, 0};
    return !heard_.empty() || ::poll(&ready, 1, 0) == 1;
}

void RawClient::end_of_speech() {
    ::shutdown(socket_, SHUT_WR);
}

RawClient& RawClient::say_message(const control::AgentMessage& message) {
    return say(control::encode(message));
}

control::ServerMessage RawClient::hear_message() {
    for (;;) {
        decoder_.append(std::exchange(heard_, {}));
        auto message = decoder_.next();
        if (!message) throw std::runtime_error(message.error().describe());
        if (*message) return std::move(**message);
        if (!hear_more()) throw std::runtime_error("the server ended the connection");
    }
}

std::string RawClient::socket_addr() const {
    sockaddr_in local{};
    socklen_t size = sizeof local;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&local), &size);
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &local.sin_addr, text.data(), text.size());
    return std::string{text.data()} + ':' + std::to_string(ntohs(local.sin_port));
}

}  // namespace ddprun::test
