// SPDX-License-Identifier: Apache-2.0
// The user at the other end of a loopback connection. Sockets of another user are made by a thread
// that has its uid.
#include "rendezvous/net/socket_owner.hpp"

#include "agent/runner/round_stores.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/skip.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace ddprun::test {
namespace {

using Kind = net::PeerOwner::Kind;
using server::ListenOn;

constexpr uid_t another = 12'345;
const std::string needs_root = "needs root, to be another user";

/// Uses the system call, since the library function changes all threads.
void as_another_user(const std::function<void()>& act) {
    std::thread([&] {
        ::syscall(SYS_setresuid, another, another, another);
        act();
    }).join();
}

/// Enters another network namespace with this thread, and brings its loopback interface up.
bool enter_another_network() {
    if (::unshare(CLONE_NEWNET) != 0) return false;
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP | IFF_RUNNING;
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_up = ::ioctl(socket, SIOCSIFFLAGS, &loopback) == 0;
    ::close(socket);
    return is_up;
}

/// The server's answer to a health check; empty: it closed.
std::string health(std::uint16_t port, const std::string& address = "127.0.0.1") {
    try {
        return RawClient(port, address).say("GET /healthz HTTP/1.1\r\n\r\n").hear_to_the_end();
    } catch (const std::exception&) {
        return {};
    }
}

/// The server's end of a connection.
struct Accepted {
    explicit Accepted(const std::string& address) : acceptor(*net::listen(io, address, 0)) {}
    net::Tcp::socket accept() {
        net::Tcp::socket socket(io);
        acceptor.accept(socket);
        return socket;
    }
    std::uint16_t port() const { return acceptor.local_endpoint().port(); }

    boost::asio::io_context io;
    net::Tcp::acceptor acceptor;
};

}  // namespace

TEST_CASE("the user at the other end of a loopback connection is known, by both ways") {
    for (const std::string address : {"127.0.0.1", "::1"}) {
        CAPTURE(address);
        Accepted server(address);
        std::optional<RawClient> caller;
        caller.emplace(server.port(), address);
        const auto own = server.accept();
        CHECK(net::peer_owner(own).kind == Kind::this_user);
        CHECK(net::peer_owner_by_table(own).kind == Kind::this_user);

        // The kernel reports root as the owner of a socket without a process.
        caller.reset();
        CHECK(net::peer_owner(own).kind == Kind::gone);
        CHECK(net::peer_owner_by_table(own).kind == Kind::gone);
    }
}

TEST_CASE("another user of this machine is known as one") {
    if (::geteuid() != 0) return skip(needs_root);
    Accepted server("127.0.0.1");
    std::optional<RawClient> caller;
    as_another_user([&] { caller.emplace(server.port()); });
    const auto socket = server.accept();
    CHECK(net::peer_owner(socket).kind == Kind::other_user);
    CHECK(net::peer_owner(socket).uid == another);
    CHECK(net::peer_owner_by_table(socket).kind == Kind::other_user);
    CHECK(net::peer_owner_by_table(socket).uid == another);
}

#if !defined(__SANITIZE_ADDRESS__)  // UBSan reads memory through a pipe, and no descriptor is left
                                    // for one
TEST_CASE("without a descriptor to ask with, no caller counts as one whose user is unknown") {
    Accepted server("127.0.0.1");
    const RawClient caller(server.port());
    auto socket = server.accept();
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const int next = ::dup(socket.native_handle());
    ::close(next);
    const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    auto asked = Kind::unknown;
    // A thread keeps the descriptor with which it asked once.
    std::thread([&] { asked = net::peer_owner(socket).kind; }).join();
    const auto read = net::peer_owner_by_table(socket).kind;
    ::setrlimit(RLIMIT_NOFILE, &before);

    CHECK(asked == Kind::gone);
    CHECK(read == Kind::gone);
    CHECK(net::peer_owner(socket).kind == Kind::this_user);
}
#endif

#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer does not continue in a forked process
TEST_CASE("a process whose own user has no number takes no caller for its own") {
    Accepted server("127.0.0.1");
    const RawClient caller(server.port());
    const auto socket = server.accept();
    constexpr int no_namespace = 2;
    const auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        // In a namespace without a uid map every user appears under the overflow uid.
        if (::unshare(CLONE_NEWUSER) != 0) ::_exit(no_namespace);
        const bool is_unknown = net::peer_owner(socket).kind == Kind::unknown &&
                                net::peer_owner_by_table(socket).kind == Kind::unknown;
        ::_exit(is_unknown ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == no_namespace)
        return skip_even_as_root("no user namespace can be made here");
    CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("a table without the server's own end says nothing of its callers") {
    if (::geteuid() != 0) return skip(needs_root);
    std::optional<Accepted> server;
    std::optional<RawClient> caller;
    std::thread([&] {
        if (!enter_another_network()) return;
        server.emplace("127.0.0.1");
        caller.emplace(server->port());
    }).join();
    if (!caller) return skip_even_as_root("no network namespace can be made here");
    const auto socket = server->accept();
    // Both query in this thread's namespace, whose table is readable.
    CHECK(net::peer_owner(socket).kind == Kind::unknown);
    CHECK(net::peer_owner_by_table(socket).kind == Kind::unknown);
}

TEST_CASE("the rendezvous of a job on a loopback address is closed to other users") {
    if (::geteuid() != 0) return skip(needs_root);
    const auto health_of = [](std::optional<std::string> hosted, bool is_other) {
        server::RendezvousServer served(
            {.listen = {ListenOn::Scope::loopback, "", 0}, .hosted_run_id = std::move(hosted)});
        const auto port = *served.start();
        std::string answer;
        if (is_other)
            as_another_user([&] { answer = health(port); });
        else
            answer = health(port);
        return answer;
    };
    CHECK(health_of("job", false).find("ok") != std::string::npos);
    CHECK(health_of("job", true).empty());
    // A daemon serves every user.
    CHECK(health_of(std::nullopt, true).find("ok") != std::string::npos);
}

TEST_CASE("the store of a round on a loopback address is closed to other users") {
    if (::geteuid() != 0) return skip(needs_root);
    boost::asio::io_context agent;
    agent::RoundStores stores(agent, "127.0.0.1", {}, wire::Accepted::current);
    std::optional<std::uint16_t> port;
    stores.open([&](Result<std::uint16_t> opened) { port = *opened; });
    const auto work = boost::asio::make_work_guard(agent);
    while (!port)
        agent.run_one();
    // VALIDATE, then PING: answered with the same number.
    const std::string hello{"\x00\xCE\xF7\x85\x3C\x0D\x07\x00\x00\x00", 10};
    CHECK(RawClient(*port).say(hello).hear(4) == std::string("\x07\x00\x00\x00", 4));
    std::string answer = "none";
    as_another_user([&] {
        try {
            answer = RawClient(*port).say(hello).hear(4);
        } catch (const std::exception&) {
            answer.clear();
        }
    });
    CHECK(answer.empty());
}

}  // namespace ddprun::test
