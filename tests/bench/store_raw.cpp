// SPDX-License-Identifier: Apache-2.0
// The minimum that a server has to do, for the store bench: reads as many bytes as the request of a
// case of store_bench has, and answers with as many, whatever they are. Prints its port, serves
// until its standard input ends.
//
//   store_raw CASE
#include "tests/bench/store_load.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>

namespace {

using namespace ddprun::store_load;

int listen_on_loopback() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        die("bind");
    if (::listen(listener, SOMAXCONN) != 0) die("listen");
    socklen_t length = sizeof address;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    std::printf("%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    return listener;
}

void watch(int epoll, int descriptor) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: store_raw CASE\n");
        return 2;
    }
    const auto exchange = make_load(argv[1], 0).repeated;
    const std::string answer(exchange.answer_bytes, 'v');
    const int listener = listen_on_loopback();
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, listener);
    watch(epoll, STDIN_FILENO);
    std::map<int, std::size_t> received_bytes;
    std::array<epoll_event, 64> events{};
    std::array<char, 65536> buffer;
    for (;;) {
        const int count = ::epoll_wait(epoll, events.data(), events.size(), -1);
        for (int i = 0; i < count; ++i) {
            const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
            if (descriptor == STDIN_FILENO) return 0;
            if (descriptor == listener) {
                const int accepted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
                if (accepted < 0) die("accept");
                const int yes = 1;
                ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                watch(epoll, accepted);
                continue;
            }
            const auto received = ::recv(descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
            if (received <= 0) {
                ::close(descriptor);
                received_bytes.erase(descriptor);
                continue;
            }
            auto& bytes = received_bytes[descriptor];
            bytes += static_cast<std::size_t>(received);
            for (; bytes >= exchange.question.size(); bytes -= exchange.question.size())
                send_all(descriptor, answer);
        }
    }
}
