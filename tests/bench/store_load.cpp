// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/store_load.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace ddprun::store_load {
namespace {

using namespace wire;

constexpr int keys_at_once = 16;
constexpr std::size_t length_bytes = 8;
constexpr std::size_t pong_bytes = 4;

/// An operation without a reply is followed by a PING, so that the next operation waits until it is
/// done.
Load of_requests(
    const std::vector<Request>& requests,
    std::size_t answer_bytes,
    const std::vector<Request>& needed = {}) {
    Load load{greeting(), {bytes_of(requests), answer_bytes}};
    if (!needed.empty()) load.preparation.push_back({bytes_of(needed) + bytes_of({Ping{1}}), 4});
    return load;
}

std::string redis_command(const std::vector<std::string>& words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const auto& word : words)
        text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    return text;
}

}  // namespace

Load make_load(const std::string& name, int connection) {
    std::array<char, 16> number{};
    std::snprintf(number.data(), number.size(), "%04d", connection);
    const auto key = std::string{"/default_pg/0//cuda//"} + number.data();
    const std::string value(64, 'v');
    if (name == "get")
        return of_requests({Get{key}}, length_bytes + value.size(), {Set{key, value}});
    if (name == "raw_get")
        return {{}, {bytes_of({Get{key}}), length_bytes + value.size()}};
    if (name == "redis_get") {
        const std::string ok = "+OK\r\n", head = "$64\r\n", end = "\r\n";
        return {
            {{redis_command({"SET", key, value}), ok.size()}},
            {redis_command({"GET", key}), head.size() + value.size() + end.size()}};
    }
    if (name == "redis_set") return {{}, {redis_command({"SET", key, value}), 5}};
    if (name == "set") return of_requests({Set{key, value}, Ping{1}}, pong_bytes);
    if (name == "add") return of_requests({Add{"/counter", 1}}, 8);
    if (name == "append") return of_requests({Append{key, "v"}, Ping{1}}, pong_bytes);
    if (name == "check") return of_requests({Check{{"/exception_dump"}}}, 1);
    if (name == "multi_set" || name == "batch_of_sets") {
        MultiSet together;
        for (int i = 0; i < keys_at_once; ++i)
            together.pairs.push_back({key + "/" + std::to_string(i), value});
        if (name == "multi_set") return of_requests({std::move(together), Ping{1}}, pong_bytes);
        // Sent in one segment.
        std::vector<Request> requests;
        for (auto& pair : together.pairs)
            requests.emplace_back(Set{std::move(pair.key), std::move(pair.value)});
        requests.emplace_back(Ping{1});
        return of_requests(requests, pong_bytes);
    }
    if (name == "multi_get") {
        MultiGet request;
        std::vector<Request> needed;
        for (int i = 0; i < keys_at_once; ++i) {
            request.keys.push_back(key + "/" + std::to_string(i));
            needed.emplace_back(Set{request.keys.back(), value});
        }
        return of_requests(
            {std::move(request)}, keys_at_once * (length_bytes + value.size()), needed);
    }
    std::fprintf(stderr, "unknown case %s\n", name.c_str());
    std::exit(2);
}

std::vector<Exchange> greeting() {
    return {{bytes_of({Validate{}}), 0}, {bytes_of({Ping{1}}), pong_bytes}};
}

std::string bytes_of(const std::vector<Request>& requests) {
    std::string bytes;
    for (const auto& request : requests)
        encode(request, bytes);
    return bytes;
}

void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

int connect_to(std::uint16_t port, int from) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) die("socket");
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + static_cast<std::uint32_t>(from));
    const int yes = 1;
    // The port is chosen in connect, which allows the same port towards different peers.
    ::setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) die("bind");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        die("connect");
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return descriptor;
}

void send_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) die("send");
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

void receive_all(int descriptor, std::size_t bytes) {
    std::array<char, 65536> buffer;
    while (bytes > 0) {
        const auto received = ::recv(descriptor, buffer.data(), std::min(bytes, buffer.size()), 0);
        if (received <= 0) die("receive");
        bytes -= static_cast<std::size_t>(received);
    }
}

int prepared_connection(std::uint16_t port, const std::vector<Exchange>& preparation) {
    const int descriptor = connect_to(port);
    for (const auto& exchange : preparation) {
        send_all(descriptor, exchange.question);
        receive_all(descriptor, exchange.answer_bytes);
    }
    return descriptor;
}

double cpu_seconds(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    const char* rest = text.c_str() + text.rfind(')') + 2;
    unsigned long user = 0, system = 0;
    std::sscanf(rest, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace ddprun::store_load
