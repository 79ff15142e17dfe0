// SPDX-License-Identifier: Apache-2.0
// What a service manager passes to the daemon: listening sockets, and one for notifications.
#include "rendezvous/server/service_manager.hpp"

#include "rendezvous/base/log.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/temp_dir.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::test {
namespace {

/// The socket of a manager, at a path or, with "@", at an abstract name.
class Manager {
public:
    explicit Manager(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, name.data(), name.size());
        if (name.front() == '@') address.sun_path[0] = '\0';
        const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0)
            throw std::runtime_error("cannot bind " + name);
    }
    ~Manager() { ::close(socket_); }
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    std::string next() const {
        pollfd ready{socket_, POLLIN, 0};
        const std::chrono::milliseconds longest = fact_timeout;
        if (::poll(&ready, 1, static_cast<int>(longest.count())) <= 0) return "no notification";
        std::array<char, 256> text{};
        const auto size = ::recv(socket_, text.data(), text.size(), 0);
        return {text.data(), static_cast<std::size_t>(size)};
    }

private:
    int socket_;
};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

Running daemon_with(
    std::vector<std::string> kinds,
    std::vector<std::string> options = {},
    std::map<std::string, std::string> environment = {}) {
    Running::Options how;
    how.arguments = std::move(kinds);
    how.arguments.insert(how.arguments.end(), {"--", program("ddprun-rendezvous")});
    how.arguments.insert(how.arguments.end(), options.begin(), options.end());
    how.environment = std::move(environment);
    return Running(stub("give_sockets"), how);
}

/// The single line on standard error with which the daemon ends.
std::string refusal(Running process, int code) {
    CHECK(process.wait_for_code() == code);
    CHECK(process.err().find('\n') == process.err().size() - 1);
    return process.err();
}

}  // namespace

TEST_CASE("the daemon serves all sockets that it inherits, and opens none of its own") {
    auto daemon = daemon_with({"tcp", "tcp"});
    const auto first = static_cast<std::uint16_t>(daemon.wait_for_number("port "));
    const auto second = static_cast<std::uint16_t>(daemon.wait_for_number("port "));
    const auto line = daemon.wait_for_line("rendezvous.listening");
    CHECK(has(line, "port=" + std::to_string(first) + " inherited=2"));

    for (const auto port : {first, second}) {
        RawClient browser(port);
        CHECK(has(browser.say("GET /healthz HTTP/1.1\r\n\r\n").hear_to_the_end(), "ok"));
    }
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);
}

TEST_CASE("what is no listening TCP socket is refused with its number and what it is") {
    const std::vector<std::pair<std::string, std::string>> kinds{
        {"file", "it is no socket"},
        {"udp", "it is no TCP socket"},
        {"unix", "it is no internet socket"},
        {"silent", "it does not listen (a socket unit needs Accept=no)"},
    };
    for (const auto& kind : kinds) {
        CAPTURE(kind.first);
        const auto text = refusal(daemon_with({kind.first}), 1);
        CHECK(has(text, "ddprun-rendezvous: LISTEN_FDS=1: descriptor 3: " + kind.second));
    }
    const auto missing = refusal(daemon_with({"silent"}, {}, {{"LISTEN_FDS", "9"}}), 1);
    CHECK(has(missing, "LISTEN_FDS=9: descriptor 3: "));
}

TEST_CASE("wrong variables, and a place that is given twice, are wrong use") {
    CHECK(
        has(refusal(daemon_with({"tcp"}, {}, {{"LISTEN_FDS", "some"}}), 2),
            "ddprun-rendezvous: LISTEN_FDS: 'some': accepted is "));
    for (const auto& option : {"--port=29400", "--host=127.0.0.1"})
        CHECK(has(refusal(daemon_with({"tcp"}, {option}), 2), "LISTEN_FDS=1 has sockets"));
}

TEST_CASE("the variables of a service manager are for no child") {
    for (const auto* name : server::activation_variables)
        ::setenv(name, "1", 1);

    const auto taken = server::take_activation();

    REQUIRE(std::holds_alternative<server::Activation>(taken));
    CHECK(std::get<server::Activation>(taken) == server::Activation{{}, "1"});
    for (const auto* name : server::activation_variables)
        CHECK(std::getenv(name) == nullptr);
}

TEST_CASE("the manager is notified when the daemon serves and when it ends") {
    const TempDir folder;
    const auto abstract = "@ddprun-test-" + std::to_string(::getpid());
    for (const auto& name : {(folder / "notify").string(), abstract}) {
        CAPTURE(name);
        const Manager manager(name);
        Running::Options how;
        how.arguments = {"--host", "localhost", "--port", "0"};
        how.environment = {{"NOTIFY_SOCKET", name}};
        Running daemon(program("ddprun-rendezvous"), how);

        CHECK(manager.next() == "READY=1");
        daemon.wait_for_line("rendezvous.listening");
        daemon.signal(SIGTERM);
        CHECK(manager.next() == "STOPPING=1");
        CHECK(daemon.wait_for_code() == 0);
        CHECK(!has(daemon.err(), "warning"));
    }
}

TEST_CASE("a manager that cannot be notified is logged, and the daemon serves") {
    const auto too_long = "@" + std::string(200, 'x');
    for (const auto& name : {std::string{"/no/such/socket"}, std::string{"vsock:2:1"}, too_long}) {
        std::vector<std::string> lines;
        log::set_sink([&](std::string line) { lines.push_back(std::move(line)); });
        server::notify_manager(name, "READY=1");
        server::notify_manager("", "READY=1");
        log::set_sink(nullptr);

        REQUIRE(lines.size() == 1);
        CHECK(has(lines.front(), "rendezvous.manager_not_notified socket=" + name.substr(0, 8)));
    }
}

}  // namespace ddprun::test
