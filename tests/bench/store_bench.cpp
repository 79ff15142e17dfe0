// SPDX-License-Identifier: Apache-2.0
// The load of the store bench: the same requests, byte for byte, against any c10d store.
//
//   store_bench PORT PID CASE CONNECTIONS SECONDS
//   store_bench PORT PID idle CONNECTIONS 0      resident bytes of the server per idle connection
//   store_bench PORT PID beside_stream CONNECTIONS SECONDS
//       p50 and p99 of another client's requests in milliseconds, while so many stream small SETs;
//       SETs per second
//
// One thread, one outstanding request per connection (as a worker has), epoll. Prints operations
// per second and the server's CPU microseconds per operation, from /proc/PID/stat.
#include "tests/bench/store_load.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace ddprun::store_load;
using namespace ddprun::wire;

struct Measured {
    double operations = 0;
    double seconds = 0;
    double cpu = 0;
};

void print(const Measured& measured) {
    std::printf(
        "%.1f %.4f\n",
        measured.operations / measured.seconds,
        measured.cpu / measured.operations * 1e6);
}

class Clients {
public:
    Clients(std::uint16_t port, const std::string& name, int count) : epoll_(::epoll_create1(0)) {
        for (int i = 0; i < count; ++i) {
            auto load = make_load(name, i);
            clients_.push_back(
                {prepared_connection(port, load.preparation), std::move(load.repeated), 0});
            operations_ = load.operations;
        }
        for (std::size_t i = 0; i < clients_.size(); ++i) {
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.u64 = i;
            ::epoll_ctl(epoll_, EPOLL_CTL_ADD, clients_[i].descriptor, &event);
        }
    }

    Measured run(const std::string& pid, Seconds length) {
        for (auto& client : clients_)
            ask(client);
        go_on(Seconds{length / 5});  // warm
        const auto cpu = cpu_seconds(pid);
        auto measured = go_on(length);
        measured.cpu = cpu_seconds(pid) - cpu;
        return measured;
    }

private:
    struct Client {
        int descriptor;
        Exchange exchange;
        std::size_t missing;
    };

    static void ask(Client& client) {
        client.missing = client.exchange.answer_bytes;
        send_all(client.descriptor, client.exchange.question);
    }

    Measured go_on(Seconds length) {
        const auto start = std::chrono::steady_clock::now();
        Measured measured;
        std::array<epoll_event, 64> events{};
        std::array<char, 65536> buffer;
        for (;;) {
            const int count = ::epoll_wait(epoll_, events.data(), events.size(), 10'000);
            if (count <= 0) die("epoll_wait");
            for (int i = 0; i < count; ++i) {
                auto& client = clients_[events[static_cast<std::size_t>(i)].data.u64];
                const auto received =
                    ::recv(client.descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
                if (received <= 0) die("receive");
                client.missing -= static_cast<std::size_t>(received);
                if (client.missing > 0) continue;
                measured.operations += operations_;
                ask(client);
            }
            const Seconds passed = std::chrono::steady_clock::now() - start;
            if (passed < length) continue;
            measured.seconds = passed.count();
            return measured;
        }
    }

    int epoll_;
    int operations_ = 1;
    std::vector<Client> clients_;
};

/// One round: all clients wait for a key, another client sets it, and all are woken and delete it.
Measured wait_and_wake(std::uint16_t port, const std::string& pid, int count, Seconds length) {
    std::vector<int> waiters;
    for (int i = 0; i < count; ++i)
        waiters.push_back(prepared_connection(port, greeting()));
    const int setter = prepared_connection(port, greeting());
    const auto wait = bytes_of({Wait{{"/default_pg/0//cuda//0"}}});
    const auto wake = bytes_of({Set{"/default_pg/0//cuda//0", "id"}});
    const auto forget = bytes_of({DeleteKey{"/default_pg/0//cuda//0"}});
    // A PING after the WAIT is answered first, which shows that the wait is registered.
    const auto ping = bytes_of({Ping{1}});

    Measured measured;
    const auto run = [&](Seconds limit) {
        measured = {};
        const auto start = std::chrono::steady_clock::now();
        while (measured.seconds < limit.count()) {
            for (const int waiter : waiters)
                send_all(waiter, wait + ping);
            for (const int waiter : waiters)
                receive_all(waiter, 4);
            send_all(setter, wake);
            for (const int waiter : waiters)
                receive_all(waiter, 1);
            send_all(setter, forget);
            receive_all(setter, 8);
            measured.operations += count;
            measured.seconds = Seconds{std::chrono::steady_clock::now() - start}.count();
        }
    };
    run(length / 5);
    const auto cpu = cpu_seconds(pid);
    run(length);
    measured.cpu = cpu_seconds(pid) - cpu;
    return measured;
}

double resident_bytes(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/statm");
    double size = 0, resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

void print_idle_bytes(std::uint16_t port, const std::string& pid, int count) {
    std::vector<int> idle;
    // The server's reserves grow with the first few connections.
    for (int i = 0; i < 100; ++i)
        idle.push_back(prepared_connection(port, greeting()));
    const auto before = resident_bytes(pid);
    for (int i = 0; i < count; ++i)
        idle.push_back(prepared_connection(port, greeting()));
    std::printf("%.1f\n", (resident_bytes(pid) - before) / count);
}

/// Sends small SETs on all of its connections, as fast as the server takes them.
class Streamers {
public:
    Streamers(std::uint16_t port, int count) {
        for (int i = 0; i < count; ++i)
            streams_.push_back({prepared_connection(port, greeting()), POLLOUT, 0});
        for (int i = 0; i < sets_per_block; ++i)
            encode(Set{"/" + std::to_string(100 + i), "v"}, block_);
        thread_ = std::thread([this] { run(); });
    }
    ~Streamers() {
        is_over_ = true;
        thread_.join();
    }
    double sets() const {
        return static_cast<double>(sent_) / static_cast<double>(block_.size()) * sets_per_block;
    }

private:
    static constexpr int sets_per_block = 800;

    void run() {
        std::vector<std::size_t> positions(streams_.size());
        while (!is_over_) {
            if (::poll(streams_.data(), streams_.size(), 100) < 0) die("poll");
            for (std::size_t i = 0; i < streams_.size(); ++i) {
                if (streams_[i].revents == 0) continue;
                const auto rest = std::string_view{block_}.substr(positions[i]);
                const auto sent =
                    ::send(streams_[i].fd, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
                if (sent < 0) die("send");
                sent_ += static_cast<std::uint64_t>(sent);
                positions[i] = (positions[i] + static_cast<std::size_t>(sent)) % block_.size();
            }
        }
    }

    std::string block_;
    std::vector<pollfd> streams_;
    std::atomic<std::uint64_t> sent_ = 0;
    std::atomic<bool> is_over_ = false;
    std::thread thread_;
};

void print_beside_stream(std::uint16_t port, int count, Seconds length) {
    const int other = prepared_connection(port, greeting());
    const auto question = bytes_of({Ping{1}});
    std::vector<double> milliseconds;
    const Streamers streamers(port, count);
    std::this_thread::sleep_for(length / 5);  // warm
    const auto sets = streamers.sets();
    const auto start = std::chrono::steady_clock::now();
    auto asked = start;
    do {
        send_all(other, question);
        receive_all(other, 4);
        const auto answered = std::chrono::steady_clock::now();
        milliseconds.push_back(Seconds{answered - asked}.count() * 1e3);
        asked = answered;
    } while (asked - start < length);
    std::sort(milliseconds.begin(), milliseconds.end());
    const auto share = [&](double part) {
        return milliseconds[static_cast<std::size_t>(
            part * static_cast<double>(milliseconds.size() - 1))];
    };
    std::printf(
        "%.4f %.4f %.1f\n",
        share(0.5),
        share(0.99),
        (streamers.sets() - sets) / Seconds{asked - start}.count());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        std::fprintf(stderr, "usage: store_bench PORT PID CASE CONNECTIONS SECONDS\n");
        return 2;
    }
    const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
    const std::string pid = argv[2], name = argv[3];
    const int connections = std::atoi(argv[4]);
    const Seconds length{std::atof(argv[5])};
    if (name == "idle")
        print_idle_bytes(port, pid, connections);
    else if (name == "beside_stream")
        print_beside_stream(port, connections, length);
    else if (name == "wait_and_wake")
        print(wait_and_wake(port, pid, connections, length));
    else
        print(Clients(port, name, connections).run(pid, length));
}
