// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/http_get.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "tests/process/support/wait.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace ddprun::test {

std::string say(const std::string& endpoint, const std::string& bytes) {
    const auto where = parse_endpoint(endpoint, 0).value();
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit{fact_timeout.count(), 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(where.port);
    ::inet_pton(AF_INET, where.host.c_str(), &address.sin_addr);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        ::close(socket);
        throw std::runtime_error("no process listens on " + endpoint);
    }
    ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::string answer;
    std::array<char, 4096> chunk;
    for (;;) {
        const auto size = ::recv(socket, chunk.data(), chunk.size(), 0);
        if (size <= 0) break;
        answer.append(chunk.data(), static_cast<std::size_t>(size));
    }
    ::close(socket);
    return answer;
}

std::string http_get(const std::string& endpoint, const std::string& path) {
    return say(endpoint, "GET " + path + " HTTP/1.1\r\nHost: " + endpoint + "\r\n\r\n");
}

std::string http_get(
    const std::string& endpoint, const std::string& path, const std::string& token) {
    return say(
        endpoint,
        "GET " + path + " HTTP/1.1\r\nHost: " + endpoint + "\r\nAuthorization: Bearer " + token +
            "\r\n\r\n");
}

}  // namespace ddprun::test
