// SPDX-License-Identifier: Apache-2.0
#include "agent/process/store_clients.hpp"

#include "agent/process/descendants.hpp"
#include "rendezvous/net/tcp.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

/// A listening socket that accepts nothing is enough: the kernel connects.
struct Port {
    explicit Port(const std::string& host) : acceptor(net::listen(io, host, 0).value()) {}

    std::uint16_t number() { return acceptor.local_endpoint().port(); }
    /// A worker that is connected here.
    Running client(const std::string& host, const std::string& program = {}) {
        Running::Options options;
        options.environment = {{"MASTER_ADDR", host}, {"MASTER_PORT", std::to_string(number())}};
        options.arguments = program.empty() ? std::vector<std::string>{"", "0"}
                                            : std::vector<std::string>{"-c", program};
        Running client(program.empty() ? stub("wait_in_store") : "/bin/sh", options);
        client.wait_for_line("waiting");
        return client;
    }

    boost::asio::io_context io;
    net::Tcp::acceptor acceptor;
};

Running idle() {
    return Running("/bin/sh", {"-c", "echo up; exec tail -f /dev/null"});
}

std::vector<int> local_ranks(const control::StoreClients& clients) {
    std::vector<int> ranks;
    for (const auto& socket : clients.sockets)
        ranks.push_back(socket.local_rank);
    return ranks;
}

using Ranks = std::vector<int>;

}  // namespace

TEST_CASE("workers with and without a connection are found, over IPv4 and IPv6") {
    for (const std::string host : {"127.0.0.1", "::1"}) {
        Port port(host);
        auto connected = port.client(host);
        auto other = idle();
        other.wait_for_line("up");

        const auto found = find_store_clients(3, port.number(), {connected.pid(), other.pid(), 0});

        CHECK(found.round == 3);
        CHECK(local_ranks(found) == Ranks{0});
        CHECK(found.unconnected == Ranks{1});
        CHECK(found.ended.empty());
        auto accepted = port.acceptor.accept();
        CHECK(found.sockets.front().socket == net::peer_name(accepted));
    }
}

TEST_CASE("a connection of a process below the worker is the worker's") {
    Port port("127.0.0.1");
    auto worker =
        port.client("127.0.0.1", "(" + stub_in_shell("wait_in_store") + " '' 0 & wait) & wait");

    const auto found = find_store_clients(0, port.number(), {worker.pid()});

    CHECK(local_ranks(found) == Ranks{0});
    CHECK(found.unconnected.empty());
    CHECK(kill_descendants(fact_timeout).empty());
}

TEST_CASE("no worker is reported as unconnected while a process of unknown origin is there") {
    Port port("127.0.0.1");
    auto connected = port.client("127.0.0.1");
    auto unknown = idle();
    unknown.wait_for_line("up");
    auto worker = idle();
    worker.wait_for_line("up");

    const auto found = find_store_clients(0, port.number(), {connected.pid(), worker.pid()});

    CHECK(local_ranks(found) == Ranks{0});
    CHECK(found.unconnected.empty());
}

TEST_CASE("nothing is reported of a worker that is gone") {
    Port port("127.0.0.1");
    auto gone = idle();
    gone.wait_for_line("up");
    gone.signal(SIGKILL);
    gone.wait_for_exit();

    const auto found = find_store_clients(0, port.number(), {gone.pid()});

    CHECK(found.sockets.empty());
    CHECK(found.unconnected.empty());
}

TEST_CASE("nothing is reported of a worker in another network, whose connections are not seen") {
    if (::geteuid() != 0) return skip("it needs root");
    Port port("127.0.0.1");
    Running worker(
        "/usr/bin/unshare", {"--net", "/bin/sh", "-c", "echo up; exec tail -f /dev/null"});
    worker.wait_for_line("up");

    const auto found = find_store_clients(0, port.number(), {worker.pid()});

    CHECK(found.unconnected.empty());
}
