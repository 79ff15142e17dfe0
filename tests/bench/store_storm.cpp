// SPDX-License-Identifier: Apache-2.0
// Many clients of a c10d store at once.
//
//   store_storm PORT PID storm CLIENTS WAVE    WAVE clients at a time connect, validate, ping, add
//                                              and get: seconds for all CLIENTS, and the server's
//                                              CPU microseconds per client
//   store_storm PORT PID barrier CLIENTS 0     milliseconds from the first BARRIER to the last answer
//   store_storm PORT PID wake CLIENTS 0        milliseconds from the SET to the last of so many
//                                              waiters, and the same of a process that only sends
//                                              one byte to each
#include "tests/bench/store_load.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace ddprun::store_load;
using namespace ddprun::wire;
using Clock = std::chrono::steady_clock;

constexpr std::size_t pong_bytes = 4;
constexpr std::size_t number_bytes = 8;
constexpr std::size_t length_bytes = 8;
constexpr std::size_t woken_bytes = 1;
/// The more of an address's ports are in use, the longer the kernel looks for a free one.
constexpr int clients_of_an_address = 8'192;

double milliseconds_since(Clock::time_point start) {
    return Seconds{Clock::now() - start}.count() * 1e3;
}

void close_all(const std::vector<int>& descriptors) {
    for (const int descriptor : descriptors)
        ::close(descriptor);
}

/// Performs each step for all clients before the next step. Clients connect from address `from` of
/// 127.0.0.0/24 and from those that follow it. Returns the first address that is not used.
int one_wave(std::uint16_t port, int count, int from) {
    const auto hello = bytes_of({Validate{}, Ping{1}});
    const auto add = bytes_of({Add{"/joined", 1}});
    const auto get = bytes_of({Get{"/id"}});
    std::vector<int> clients;
    for (int i = 0; i < count; ++i) {
        clients.push_back(connect_to(port, from + i / clients_of_an_address));
        send_all(clients.back(), hello);
    }
    for (const int client : clients) {
        receive_all(client, pong_bytes);
        send_all(client, add);
    }
    for (const int client : clients) {
        receive_all(client, number_bytes);
        send_all(client, get);
    }
    for (const int client : clients)
        receive_all(client, length_bytes + 2);
    close_all(clients);
    return from + (count + clients_of_an_address - 1) / clients_of_an_address;
}

void storm(std::uint16_t port, const std::string& pid, int count, int wave) {
    const int setter = prepared_connection(port, greeting());
    send_all(setter, bytes_of({Set{"/id", "id"}, Ping{1}}));
    receive_all(setter, pong_bytes);
    const auto cpu = cpu_seconds(pid);
    const auto start = Clock::now();
    // Each wave uses other addresses: the ports of the last wave are not free yet.
    for (int done = 0, from = 2; done < count; done += wave)
        from = one_wave(port, std::min(wave, count - done), from);
    const auto seconds = milliseconds_since(start) / 1e3;
    std::printf("%.3f %.2f\n", seconds, (cpu_seconds(pid) - cpu) / count * 1e6);
}

std::vector<int> prepared(std::uint16_t port, int count) {
    std::vector<int> clients;
    for (int i = 0; i < count; ++i)
        clients.push_back(prepared_connection(port, greeting()));
    return clients;
}

void barrier(std::uint16_t port, int count) {
    const auto clients = prepared(port, count);
    const auto question = bytes_of({Barrier{"/barrier", count}});
    const auto start = Clock::now();
    for (const int client : clients)
        send_all(client, question);
    for (const int client : clients)
        receive_all(client, woken_bytes);
    std::printf("%.2f\n", milliseconds_since(start));
}

double wake(std::uint16_t port, int count) {
    const auto waiters = prepared(port, count);
    const int setter = prepared_connection(port, greeting());
    const auto question = bytes_of({Wait{{"/id"}}, Ping{1}});
    for (const int waiter : waiters) {
        send_all(waiter, question);
        receive_all(waiter, pong_bytes);
    }
    const auto start = Clock::now();
    send_all(setter, bytes_of({Set{"/id", "id"}}));
    for (const int waiter : waiters)
        receive_all(waiter, woken_bytes);
    const double milliseconds = milliseconds_since(start);
    close_all(waiters);
    return milliseconds;
}

/// Each connection first has an exchange, as a client of the store has: the kernel's send is
/// cheaper on one that has never been used.
[[noreturn]] void send_when_asked(int listener, int count, int question) {
    std::vector<int> accepted;
    for (int i = 0; i < count; ++i) {
        accepted.push_back(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        receive_all(accepted.back(), 1);
        send_all(accepted.back(), "p");
    }
    char byte = 0;
    if (::read(question, &byte, 1) != 1) std::_Exit(1);
    for (const int descriptor : accepted)
        send_all(descriptor, "w");
    // Ends only after all bytes were read, because then the other end closes the pipe.
    if (::read(question, &byte, 1) < 0) std::_Exit(1);
    std::_Exit(0);
}

double send_to_each(int count) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0) die("bind");
    if (::listen(listener, SOMAXCONN) != 0) die("listen");
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0) die("pipe");
    const int child = ::fork();
    if (child < 0) die("fork");
    if (child == 0) {
        ::close(pipe[1]);
        send_when_asked(listener, count, pipe[0]);
    }
    ::close(pipe[0]);
    std::vector<int> clients;
    for (int i = 0; i < count; ++i) {
        clients.push_back(connect_to(ntohs(address.sin_port), 250));
        send_all(clients.back(), "p");
        receive_all(clients.back(), 1);
    }
    const auto start = Clock::now();
    if (::write(pipe[1], "g", 1) != 1) die("write");
    for (const int client : clients)
        receive_all(client, woken_bytes);
    const double milliseconds = milliseconds_since(start);
    ::close(pipe[1]);
    ::waitpid(child, nullptr, 0);
    close_all(clients);
    return milliseconds;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        std::fprintf(stderr, "usage: store_storm PORT PID storm|barrier|wake CLIENTS WAVE\n");
        return 2;
    }
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
    const std::string pid = argv[2], name = argv[3];
    const int clients = std::atoi(argv[4]);
    if (name == "storm")
        storm(port, pid, clients, std::atoi(argv[5]));
    else if (name == "barrier")
        barrier(port, clients);
    else {
        const double ours = wake(port, clients);
        std::printf("%.2f %.2f\n", ours, send_to_each(clients));
    }
}
