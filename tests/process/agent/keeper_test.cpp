// SPDX-License-Identifier: Apache-2.0
#include "agent/process/descendants.hpp"
#include "rendezvous/base/limits.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/mount_namespace.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/temp_dir.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <doctest/doctest.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

/// A keeper, its agent, and a worker whose grandchild has its own session.
struct Node {
    explicit Node(std::vector<std::string> options = {}, Running::Options how = {})
        : keeper(start(std::move(options), std::move(how))) {
        agent = keeper.wait_for_number("agent ");
        worker = keeper.wait_for_number("worker ");
        grandchild = keeper.wait_for_number("grandchild ");
    }

    static Running start(std::vector<std::string> options, Running::Options how) {
        for (const auto& word : {std::string{"--"}, stub("fork_and_leave"), std::string{"stay"}})
            options.push_back(word);
        how.arguments = std::move(options);
        return Running(stub("kept_node"), std::move(how));
    }

    Running keeper;
    int agent;
    int worker;
    int grandchild;
};

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

bool is_alive(pid_t pid) {
    return ::kill(pid, 0) == 0;
}

/// Renames this process, since senders of signals are recognized by their names.
class NamedAs {
public:
    explicit NamedAs(const char* name) {
        ::prctl(PR_GET_NAME, own_.data());
        ::prctl(PR_SET_NAME, name);
    }
    ~NamedAs() { ::prctl(PR_SET_NAME, own_.data()); }
    NamedAs(const NamedAs&) = delete;
    NamedAs& operator=(const NamedAs&) = delete;

private:
    std::array<char, 16> own_{};
};

void interrupt_twice(const Running& keeper) {
    keeper.signal(SIGINT);
    // Sent one at a time: two pending signals of one kind would be merged.
    REQUIRE(holds_within(fact_timeout, [&] { return !has_pending_signal(keeper.pid(), SIGINT); }));
    keeper.signal(SIGINT);
}

}  // namespace

TEST_CASE("the keeper passes the agent's exit code on") {
    for (const int code : {0, 1, 42, 255}) {
        Running node(stub("kept_node"), {"--exit", std::to_string(code), "--"});
        node.wait_for_line("agent ");

        node.signal(SIGTERM);

        CHECK(node.wait_for_code() == code);
        CHECK(node.err().empty());
    }
}

TEST_CASE("every signal sent to ddprun reaches the agent, in order") {
    Running node(stub("kept_node"), {"--exit", "0", "--"});
    node.wait_for_line("agent ");

    for (const auto& [signal, name] :
         {std::pair{SIGHUP, "SIGHUP"}, {SIGQUIT, "SIGQUIT"}, {SIGINT, "SIGINT"}}) {
        node.signal(signal);
        CHECK(node.wait_for_line("signal") == std::string{"signal "} + name);
    }

    node.signal(SIGTERM);
    CHECK(node.wait_for_code() == 0);
}

TEST_CASE("a signal sent to the agent itself, as a scheduler does to every process, is ignored") {
    Running node(stub("kept_node"), {"--exit", "5", "--"});
    const int agent = node.wait_for_number("agent ");

    for (const int signal : {SIGHUP, SIGQUIT, SIGINT, SIGTERM, SIGTSTP})
        ::kill(agent, signal);
    node.signal(SIGINT);

    CHECK(node.wait_for_line("signal") == "signal SIGINT");
    node.signal(SIGTERM);
    CHECK(node.wait_for_code() == 5);
}

TEST_CASE("a signal that Slurm has sent to every process is known as such, a user's is not") {
    Running node(stub("kept_node"), {"--exit", "5", "--"});
    const int agent = node.wait_for_number("agent ");
    // Signals children before their parents, as Slurm does.
    const auto signal_both = [&](int signal) {
        ::kill(agent, signal);
        node.signal(signal);
    };

    signal_both(SIGINT);
    CHECK(node.wait_for_line("signal") == "signal SIGINT");
    const NamedAs slurm("slurmstepd");
    signal_both(SIGHUP);
    CHECK(node.wait_for_line("signal") == "signal SIGHUP for all processes");
    signal_both(SIGHUP);
    CHECK(node.wait_for_line("signal") == "signal SIGHUP for all processes");
    // With control groups Slurm signals only the task.
    node.signal(SIGHUP);
    CHECK(node.wait_for_line("signal") == "signal SIGHUP");

    node.signal(SIGTERM);
    CHECK(node.wait_for_code() == 5);
}

TEST_CASE("under nohup a hang-up stays ignored") {
    Running::Options options;
    options.arguments = {"--exit", "0", "--"};
    options.ignored_signals = {SIGHUP};
    Running node(stub("kept_node"), options);
    node.wait_for_line("agent ");

    node.signal(SIGHUP);
    node.signal(SIGINT);

    CHECK(node.wait_for_line("signal") == "signal SIGINT");
    node.signal(SIGTERM);
    CHECK(node.wait_for_code() == 0);
}

TEST_CASE("a SIGKILLed agent leaves nothing, and its keeper says so") {
    Node node;

    ::kill(node.agent, SIGKILL);

    CHECK(node.keeper.wait_for_code() == 1);
    // Checked at the moment when the keeper is gone, not some time later.
    CHECK(left_behind().empty());
    CHECK(contains(
        node.keeper.err(),
        "ddprun: the agent (pid " + std::to_string(node.agent) +
            ") was killed by signal 9 (KILL)"));
}

TEST_CASE("what an agent left behind when it ended by itself is killed") {
    Node node({"--exit", "3"});

    node.keeper.signal(SIGTERM);

    CHECK(node.keeper.wait_for_code() == 3);
    CHECK(left_behind().empty());
    CHECK(node.keeper.err().empty());
}

TEST_CASE("an agent that is stopped is killed at the end of its fence") {
    // The fence is so far away that the agent has stopped by then, even on a busy machine.
    Node node({"--stop-at-fence", "3000"});

    node.keeper.signal(SIGTERM);

    CHECK(node.keeper.wait_for_code() == 1);
    CHECK(left_behind().empty());
    CAPTURE(node.keeper.err());
    CHECK(contains(node.keeper.err(), "(pid " + std::to_string(node.agent) + ", state T"));
    CHECK(contains(node.keeper.err(), ") was past its fence"));
}

TEST_CASE("a SIGKILLed keeper takes its node with it") {
    Node node;

    node.keeper.signal(SIGKILL);

    CHECK(node.keeper.wait_for_exit() == WorkerExit(WorkerExit::Killed{SIGKILL, false}));
    CHECK(no_descendants_left());
}

TEST_CASE("error files that no process is left to read are gone with their node") {
    for (const bool is_keeper_killed : {false, true}) {
        const TempDir dir;
        const auto first = dir.write("round-0.json", "{}");
        const auto last = dir.write("round-2.json", "{}");
        const auto other = dir.write("round-3.json", "{}");
        Node node({"--error-files", (dir / "round-").string()});

        ::kill(is_keeper_killed ? node.keeper.pid() : node.agent, SIGKILL);

        node.keeper.wait_for_exit();
        CHECK(no_descendants_left());
        CHECK_FALSE(std::filesystem::exists(first));
        CHECK_FALSE(std::filesystem::exists(last));
        CHECK(std::filesystem::exists(other));
    }
}

TEST_CASE("a second SIGINT kills an agent that is silent") {
    Node node({"--deaf"});

    interrupt_twice(node.keeper);

    CHECK(node.keeper.wait_for_code() == 1);
    CHECK(left_behind().empty());
    CHECK(contains(node.keeper.err(), "did not answer"));
}

TEST_CASE("a second SIGINT leaves an agent alone that answers") {
    Node node({"--exit", "130"});
    Node deaf({"--deaf"});

    node.keeper.signal(SIGINT);
    node.keeper.wait_for_line("signal SIGINT");
    node.keeper.signal(SIGINT);
    node.keeper.wait_for_line("signal SIGINT");
    // Waits longer than the keeper's timeout for a silent agent.
    interrupt_twice(deaf.keeper);
    CHECK(deaf.keeper.wait_for_code() == 1);

    CHECK(is_alive(node.agent));
    node.keeper.signal(SIGTERM);
    CHECK(node.keeper.wait_for_code() == 130);
}

TEST_CASE("the node's connection ends only when all its processes are gone") {
    boost::asio::io_context io;
    using Tcp = boost::asio::ip::tcp;
    Tcp::acceptor server(io, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    Node node({"--connect", std::to_string(server.local_endpoint().port())});
    auto connection = server.accept();
    boost::asio::streambuf heard;
    boost::asio::read_until(connection, heard, '\n');

    ::kill(node.agent, SIGKILL);
    boost::system::error_code ec;
    boost::asio::read(connection, heard, ec);

    CHECK(ec == boost::asio::error::eof);
    CHECK(is_gone(node.worker, std::chrono::seconds{0}));
    CHECK(is_gone(node.grandchild, std::chrono::seconds{0}));
    CHECK(node.keeper.wait_for_code() == 1);
}

TEST_CASE("children that a shell had before it became ddprun are left alone") {
    Running node(
        "/bin/sh",
        {"-c",
         "sleep 1000 & echo preexisting $!; exec \"$0\" --exit 0 -- \"$1\"",
         stub("kept_node"),
         stub("ignore_term")});
    const int preexisting = node.wait_for_number("preexisting ");
    const int worker = node.wait_for_number("worker ");
    node.wait_for_line("ready");

    node.signal(SIGTERM);

    CHECK(node.wait_for_code() == 0);
    CHECK_FALSE(is_alive(worker));
    CHECK(is_alive(preexisting));
    CHECK(kill_descendants(fact_timeout).empty());
}

TEST_CASE("the modes of the terminal are given back") {
    Running::Options options;
    options.has_terminal = true;
    Node node({"--raw-terminal"}, options);
    node.keeper.wait_for_line("raw");
    termios raw{};
    REQUIRE(::tcgetattr(node.keeper.terminal(), &raw) == 0);
    REQUIRE((raw.c_lflag & ICANON) == 0U);

    ::kill(node.agent, SIGKILL);

    CHECK(node.keeper.wait_for_code() == 1);
    termios restored{};
    REQUIRE(::tcgetattr(node.keeper.terminal(), &restored) == 0);
    CHECK((restored.c_lflag & ICANON) != 0U);
    CHECK((restored.c_lflag & ECHO) != 0U);
}

TEST_CASE("an ignored SIGCHLD does not take the exit statuses from us") {
    Running::Options options;
    options.arguments = {"--exit", "9", "--", stub("print_state")};
    options.ignored_signals = {SIGCHLD};
    Running node(stub("kept_node"), options);
    // Workers have the signal dispositions that ddprun was started with.
    node.wait_for_line("ignored: 17$");
    node.wait_for_line("descriptors");

    node.signal(SIGTERM);

    CHECK(node.wait_for_code() == 9);
}

TEST_CASE("without /proc the workers' sessions are killed") {
    if (const auto reason = why_no_mount_namespace(); !reason.empty()) return skip(reason);
    // The shell's child has no parent-death signal: only the keeper can end it.
    Running node(
        "unshare",
        {"--mount",
         "/bin/sh",
         "-c",
         "mount -t tmpfs none /proc && exec \"$0\" -- /bin/sh -c 'sleep 1000 & echo child $!; "
         "wait'",
         stub("kept_node")});
    const int agent = node.wait_for_number("agent ");
    node.wait_for_line("worker ");  // noted by now
    const int child = node.wait_for_number("child ");

    ::kill(agent, SIGKILL);

    CHECK(node.wait_for_code() == 1);
    CHECK_FALSE(is_alive(child));
    CHECK(left_behind().empty());
}

TEST_CASE("where close_range is refused workers still see no descriptor of ours") {
    boost::asio::io_context io;
    using Tcp = boost::asio::ip::tcp;
    Tcp::acceptor server(io, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    const auto port = std::to_string(server.local_endpoint().port());
    const std::vector<std::string> refusing{
        "close_range", stub("kept_node"), "--connect", port, "--", stub("print_fds")};
    SUBCASE("/proc lists the descriptors") {
        Running node(stub("refuse"), refusing);
        CHECK(node.wait_for_line("^[0-9 ]+$") == "0 1 2");
        node.signal(SIGTERM);
        CHECK(node.wait_for_code() == 0);
    }
#if !defined(__SANITIZE_ADDRESS__)  // AddressSanitizer itself needs /proc
    SUBCASE("nothing lists them") {
        if (const auto reason = why_no_mount_namespace(); !reason.empty()) return skip(reason);
        std::vector<std::string> hiding{
            "--mount",
            "/bin/sh",
            "-c",
            "mount -t tmpfs none /proc && exec \"$0\" \"$@\"",
            stub("refuse")};
        hiding.insert(hiding.end(), refusing.begin(), refusing.end());
        Running node("unshare", hiding);
        CHECK(node.wait_for_line("^[0-9 ]+$") == "0 1 2");
        node.signal(SIGTERM);
        CHECK(node.wait_for_code() == 0);
    }
#endif
}
