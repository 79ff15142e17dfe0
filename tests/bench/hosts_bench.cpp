// SPDX-License-Identifier: Apache-2.0
// One of two ranks of scripts/bench.sh hosts: `hosts_bench PORT BYTES...`, in a launched world,
// each rank on a host of its own. Rank 0 prints "WHAT BYTES us": the median time of each
// collective, and of the same bytes over one plain TCP connection ("one-way", "both-ways";
// "round-trip" of 8 bytes). If bytes go one way only, calls alternate between the directions and
// half the time counts.
#include "ddprun/process_group.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using ddprun::ElementType;

void need(bool holds, const char* what) {
    if (holds) return;
    std::perror(what);
    std::exit(1);
}

/// A plain connection between the two ranks: rank 0 listens from the start, and rank 1 connects
/// later.
class Stream {
public:
    Stream(int rank, const char* first_host, int port) : is_first_(rank == 0) {
        where_.sin_family = AF_INET;
        where_.sin_port = htons(static_cast<std::uint16_t>(port));
        ::inet_pton(AF_INET, first_host, &where_.sin_addr);
        socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
        constexpr int yes = 1;
        ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (!is_first_) return;
        need(::bind(socket_, address(), sizeof where_) == 0, "bind");
        need(::listen(socket_, 1) == 0, "listen");
    }

    void open() {
        if (is_first_)
            socket_ = ::accept(socket_, nullptr, nullptr);
        else
            need(::connect(socket_, address(), sizeof where_) == 0, "connect");
        need(socket_ >= 0, "accept");
        constexpr int yes = 1;
        ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }

    void send(const char* bytes, std::size_t size) const {
        for (std::size_t at = 0; at < size;) {
            const auto sent = ::send(socket_, bytes + at, size - at, MSG_NOSIGNAL);
            need(sent > 0, "send");
            at += static_cast<std::size_t>(sent);
        }
    }
    void receive(char* bytes, std::size_t size) const {
        for (std::size_t at = 0; at < size;) {
            const auto got = ::recv(socket_, bytes + at, size - at, 0);
            need(got > 0, "recv");
            at += static_cast<std::size_t>(got);
        }
    }

private:
    const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&where_); }

    bool is_first_;
    int socket_;
    sockaddr_in where_{};
};

struct Bench {
    ddprun::ProcessGroup group;
    Stream stream;

    bool is_first() const { return group.rank() == 0; }

    /// `once` makes that many calls, one after the other.
    void measure(
        const std::string& what,
        std::size_t bytes,
        int calls,
        const std::function<void()>& once) const {
        std::vector<double> times;
        // About a tenth of a second, whatever the network is.
        const auto until = Clock::now() + std::chrono::milliseconds(150);
        for (int i = 0;; ++i) {
            group.barrier().wait();
            const auto start = Clock::now();
            once();
            double time = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
            double is_over = Clock::now() >= until && i >= 8 ? 1 : 0;
            double both[] = {time, is_over};
            group.all_reduce(both, 2, ddprun::Op::max).wait();
            if (i >= 3) times.push_back(both[0] / calls);  // the first ones touch the memory
            if (both[1] > 0) break;
        }
        std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
        if (is_first()) std::printf("%s %zu %.2f\n", what.c_str(), bytes, times[times.size() / 2]);
    }

    void plain(std::size_t bytes, char* input, char* output) const {
        const auto to_and_fro = [&](std::size_t size) {
            if (is_first()) stream.send(input, size);
            stream.receive(output, size);
            if (!is_first()) stream.send(input, size);
        };
        measure("round-trip", bytes, 1, [&] { to_and_fro(8); });
        measure("one-way", bytes, 2, [&] { to_and_fro(bytes); });
        measure("both-ways", bytes, 1, [&] {
            if (bytes <= 64 * 1024) {  // the kernel takes it
                stream.send(input, bytes);
                return stream.receive(output, bytes);
            }
            std::thread sender([&] { stream.send(input, bytes); });
            stream.receive(output, bytes);
            sender.join();
        });
    }

    void collectives(std::size_t bytes, char* input, char* output) const {
        auto* const from = reinterpret_cast<float*>(input);
        auto* const to = reinterpret_cast<float*>(output);
        const auto count = bytes / sizeof(float);
        const auto for_each_root = [&](const auto& call) {
            return [call] {
                for (const int root : {0, 1})
                    call(root);
            };
        };
        measure("barrier", bytes, 1, [&] { group.barrier().wait(); });
        measure("all_reduce", bytes, 1, [&] { group.all_reduce(to, count).wait(); });
        measure("all_gather", bytes, 1, [&] { group.all_gather(from, to, count).wait(); });
        measure("reduce_scatter", bytes, 1, [&] { group.reduce_scatter(from, to, count).wait(); });
        measure("all_to_all", bytes, 1, [&] { group.all_to_all(from, to, count).wait(); });
        measure("reduce", bytes, 2, for_each_root([&](int root) {
                    group.reduce(to, count, root).wait();
                }));
        measure("broadcast", bytes, 2, for_each_root([&](int root) {
                    group.broadcast(to, count, root).wait();
                }));
        measure("gather", bytes, 2, for_each_root([&](int root) {
                    group.gather(from, to, count, root).wait();
                }));
        measure("scatter", bytes, 2, for_each_root([&](int root) {
                    group.scatter(from, to, count, root).wait();
                }));
        measure("send", bytes, 2, for_each_root([&](int root) {
                    if (root == group.rank())
                        group.send(from, count, 1 - root).wait();
                    else
                        group.recv(to, count, root).wait();
                }));
    }
};

}  // namespace

int main(int argument_count, char** arguments) {
    const auto world = ddprun::World::from_environment();
    Stream stream(world.rank, std::getenv("MASTER_ADDR"), std::atoi(arguments[1]));
    Bench bench{ddprun::ProcessGroup::create(world, ddprun::Store::connect(world)), stream};
    bench.stream.open();
    for (int i = 2; i < argument_count; ++i) {
        const auto bytes = static_cast<std::size_t>(std::atoll(arguments[i]));
        std::vector<char> input(2 * bytes);
        std::vector<char> output(2 * bytes);
        bench.plain(bytes, input.data(), output.data());
        bench.collectives(bytes, input.data(), output.data());
    }
}
