// SPDX-License-Identifier: Apache-2.0
// Runs the scripts of --hosts, without ssh, in the shells that are `sh` on most systems.
#include "launcher/host_connection.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/tls/sha256.hpp"
#include "tests/process/support/temp_dir.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <doctest/doctest.h>

#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::test::fact_timeout;
using ddprun::test::read_file;
using ddprun::test::TempDir;

namespace {

const std::vector<std::string> shells{"/usr/bin/dash", "/bin/bash"};

/// Replaces ddprun: shows what it was started with.
const std::string program = R"(#!/bin/sh
[ "$1" != --version ] || exit 0
for word; do printf '<%s>' "$word"; done
printf '{%s}' "$program" "$QUOTES" "$PATH"
env | grep -c -E '^(ddprun_|token=)'
exit 7
)";

/// One host's answers, and its program's output.
struct Host {
    std::string answers;
    std::string output;
    std::optional<FanOut::HostEnd> end;
    std::unique_ptr<HostConnection> connection;
    std::function<void()> on_lacked;
    std::function<void()> on_ready;

    void take(FanOut::Event event) {
        std::visit(
            Overloaded{
                [&](FanOut::Lacked) {
                    answers += "lacks ";
                    on_lacked();
                },
                [&](FanOut::Readied) {
                    answers += "ready ";
                    connection->begin_node();
                    on_ready();
                },
                [&](const FanOut::Refused& refused) { answers += "cannot " + refused.reason; },
                [&](FanOut::Ended& ended) { end = std::move(ended.end); },
                [](const auto&) {}},
            event);
    }
};

/// Hosts with a shared home, which this program contacts as run_hosts does.
class Network {
public:
    Network() { await_child(); }

    Host& add(const std::string& shell, std::vector<std::string> login = {}) {
        auto& host = hosts_.emplace_back();
        host.on_lacked = [this, &host] { send(host, program); };
        host.on_ready = [this, &host] { send(host, start); };
        host.connection = std::make_unique<HostConnection>(
            io,
            HostConnection::Identity{0, "t0", true, true},
            HostConnection::Callbacks{
                [&host](FanOut::Event event) { host.take(std::move(event)); },
                [&host](int descriptor, const std::string& text) {
                    if (descriptor == STDOUT_FILENO) host.output += text;
                },
                [this] { return is_full; }});
        login.push_back("HOME=" + home.path().string());
        login.emplace_back("PATH=/usr/bin:/bin");
        REQUIRE(host.connection->start({shell, {"sh", "-s"}, login, std::nullopt}) == 0);
        send(host, question_script(question));
        return host;
    }

    static void send(Host& host, const std::string& bytes) {
        host.connection->send(std::make_shared<std::string>(bytes));
    }

    void run() {
        io.run_for(fact_timeout);
        for (const auto& host : hosts_)
            REQUIRE(host.end);
    }

    std::filesystem::path folder() const { return home.path() / ".cache/ddprun" / question.sum; }

    boost::asio::io_context io;
    TempDir home;
    HostQuestion question{"t0", home.path().string(), tls::sha256_hex(program), program.size(), [] {
                              utsname names{};
                              ::uname(&names);
                              return std::string{names.machine};
                          }()};
    std::string start = start_script("t0", {}, "", {"x"});
    bool is_full = false;

private:
    void await_child() {
        children_.async_wait([this](const boost::system::error_code&, int) {
            bool is_over = true;
            for (auto& host : hosts_) {
                int status = 0;
                const auto pid = host.connection->pid();
                if (pid > 0 && ::waitpid(pid, &status, WNOHANG) == pid)
                    host.connection->reaped(status);
                is_over &= host.end.has_value();
            }
            if (!is_over) await_child();
        });
    }

    boost::asio::signal_set children_{io, SIGCHLD};
    std::list<Host> hosts_;
};

std::vector<std::string> names_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator{folder})
        names.push_back(entry.path().filename());
    return names;
}

}  // namespace

TEST_CASE("hosts with one home copy at the same time, and each executes the whole program") {
    for (const auto& shell : shells) {
        CAPTURE(shell);
        Network network;
        constexpr std::size_t count = 6;
        std::vector<Host*> lacking;
        for (std::size_t i = 0; i < count; ++i) {
            auto& host = network.add(shell);
            host.on_lacked = [&] {
                lacking.push_back(&host);
                if (lacking.size() < count) return;
                for (auto* one : lacking)
                    Network::send(*one, program);
            };
        }
        network.run();
        REQUIRE(lacking.size() == count);
        for (const auto* host : lacking) {
            CHECK(host->answers == "lacks ready ");
            CHECK(host->output.starts_with("<x>"));
            CHECK(host->end->exit_code == 7);
        }
        CHECK(names_in(network.folder()) == std::vector<std::string>{"ddprun"});
    }
}

TEST_CASE("no variable of the user or of a login changes what is executed, nor are others added") {
    for (const auto& shell : shells) {
        CAPTURE(shell);
        Network network;
        const std::string quotes = "it's \"a\" `b` $HOME \\\nend ";
        network.start = start_script(
            "t0",
            {{"program", "/bin/false"}, {"QUOTES", quotes}, {"PATH", "/a b:/usr/bin:/bin"}},
            "/usr/bin/env",
            {"it's", "*", "$HOME", "a  b\n", ""});
        const auto& host = network.add(
            shell,
            {"program=/bin/false",
             "ddprun_program=/bin/false",
             "ddprun_token=of the login",
             "ddprun_start=x",
             "XDG_CACHE_HOME=-relative"});
        network.run();
        CHECK(host.answers == "lacks ready ");
        CHECK(
            host.output == "<--python=/usr/bin/env><it's><*><$HOME><a  b\n><>{/bin/false}{" +
                               quotes + "}{/a b:/usr/bin:/bin:/usr/bin:/bin}0\n");
    }
}

TEST_CASE("a variable of the user with the name of one of the script's reaches the workers") {
    Network network;
    network.start = start_script("t0", {{"ddprun_program", "/bin/false"}}, "", {"x"});
    const auto& host = network.add("/bin/sh");
    network.run();
    CHECK(host.output.ends_with("}1\n"));
}

TEST_CASE("a program that is not the one of its name is replaced, and a right one is kept") {
    Network network;
    std::filesystem::create_directories(network.folder());
    for (const auto& folder : {network.folder(), network.folder().parent_path()})
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
    const auto place = network.folder() / "ddprun";
    std::ofstream(place) << program.substr(0, 20);
    std::filesystem::permissions(place, std::filesystem::perms::owner_all);
    const auto& host = network.add("/bin/sh");
    network.run();
    CHECK(host.answers == "lacks ready ");
    CHECK(host.end->exit_code == 7);
    CHECK(read_file(place) == program);

    Network later;
    const auto& again =
        later.add("/bin/sh", {"XDG_CACHE_HOME=" + (network.home / ".cache").string()});
    later.run();
    CHECK(again.answers == "ready ");
}

TEST_CASE("no program is taken from a folder to which other users may write, or that is theirs") {
    const auto refusal = [](const std::function<void(const std::filesystem::path&)>& change) {
        Network network;
        network.add("/bin/sh");
        network.run();
        change(network.folder());
        Network later;
        const auto& host =
            later.add("/bin/sh", {"XDG_CACHE_HOME=" + (network.home / ".cache").string()});
        later.run();
        return host.answers;
    };
    using std::filesystem::perms;
    for (const auto open : {perms::group_write, perms::others_write}) {
        for (const bool is_outer : {false, true}) {
            const auto answer = refusal([&](const std::filesystem::path& folder) {
                std::filesystem::permissions(
                    is_outer ? folder.parent_path() : folder,
                    open,
                    std::filesystem::perm_options::add);
            });
            CHECK(answer.starts_with("cannot the folder "));
            CHECK(answer.ends_with("belongs to another user, or others may write to it"));
        }
    }
    if (::geteuid() != 0) return;
    CHECK(refusal([](const std::filesystem::path& folder) {
              ::chown(folder.c_str(), 65'534, 65'534);
          }).starts_with("cannot the folder "));
}

TEST_CASE("the processor is compared where the home has the program already") {
    Network network;
    network.add("/bin/sh");
    network.run();
    Network later;
    later.question.machine = "another";
    const auto& host =
        later.add("/bin/sh", {"XDG_CACHE_HOME=" + (network.home / ".cache").string()});
    later.run();
    CHECK(host.answers.starts_with("cannot its processor is "));
}

TEST_CASE("a start that was cut off is not executed") {
    for (const auto& shell : shells) {
        CAPTURE(shell);
        Network network;
        network.start = "12\necho started";
        const auto& host = network.add(shell);
        network.run();
        CHECK(host.answers == "lacks ready ");
        CHECK(host.output.empty());
        CHECK(host.end->exit_code == 1);
    }
}

TEST_CASE(
    "output that came before the end is shown before the end, also when both are seen at once") {
    boost::asio::io_context io;
    std::string seen;
    bool is_full = false;
    HostConnection connection(
        io,
        HostConnection::Identity{0, "t0", false, true},
        HostConnection::Callbacks{
            [&](const FanOut::Event&) { seen += "end"; },
            [&](int, const std::string& text) {
                seen += text;
                is_full = true;
            },
            [&] { return is_full; }});
    connection.begin_node();
    REQUIRE(
        connection.start({"/bin/sh", {"sh", "-c", "echo first; read go; echo last"}, {}, {}}) == 0);
    while (seen != "first\n")
        REQUIRE(io.run_one_for(fact_timeout) > 0);
    // Nothing is read now, so the last line waits in the pipe until the process has ended.
    connection.send(std::make_shared<std::string>("\n"));
    io.restart();
    io.poll();
    siginfo_t ended{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(connection.pid()), &ended, WEXITED | WNOWAIT) == 0);
    is_full = false;
    connection.read_on();
    int status = 0;
    REQUIRE(::waitpid(connection.pid(), &status, 0) == connection.pid());
    connection.reaped(status);
    io.restart();
    io.poll();
    CHECK(seen == "first\nlast\nend");
}
