// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/mount_namespace.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::test {
namespace {

/// `ddprun-rendezvous` on a free loopback port, read from its log.
struct Daemon {
    explicit Daemon(const std::vector<std::string>& options = {})
        : process(program("ddprun-rendezvous"), with_place(options)) {
        port = static_cast<std::uint16_t>(process.wait_for_number("rendezvous.listening port="));
    }

    static std::vector<std::string> with_place(std::vector<std::string> options) {
        options.insert(options.end(), {"--host", "localhost", "--port", "0"});
        return options;
    }

    Running process;
    std::uint16_t port = 0;
};

/// A daemon with this limit of open files.
[[maybe_unused]] Running with_descriptors(const std::string& limit) {
    return Running(
        "/bin/sh",
        {"-c",
         "ulimit -n " + limit + "; exec \"$0\" --host 127.0.0.1 --port 0",
         program("ddprun-rendezvous")});
}

/// The output of one run with these arguments, and how it ends.
struct Said {
    explicit Said(std::vector<std::string> arguments) {
        Running process(program("ddprun-rendezvous"), std::move(arguments));
        code = process.wait_for_code();
        out = process.out();
        err = process.err();
    }
    int code;
    std::string out;
    std::string err;
};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

Running in_namespace(const std::string& name, std::string program, std::vector<std::string> words) {
    Running::Options options;
    options.arguments = std::move(words);
    options.network_namespace = name;
    return Running(std::move(program), options);
}

/// Whether a setting of a network namespace could be changed: a container's /proc may be read-only.
bool set(const std::string& name, const std::string& file, const std::string& value) {
    return in_namespace(name, "/bin/sh", {"-c", "echo " + value + " >/proc/sys/net/" + file})
               .wait_for_code() == 0;
}

/// Whether a daemon with this --host (empty: none) answers there at an address.
bool serves_at(const std::string& name, const std::string& host, const std::string& address) {
    std::vector<std::string> options{"--port", "0"};
    if (!host.empty()) options.insert(options.end(), {"--host", host});
    auto daemon = in_namespace(name, program("ddprun-rendezvous"), options);
    const auto port = daemon.wait_for_number("rendezvous.listening port=");
    auto client = in_namespace(
        name,
        "python3",
        {"-c",
         "import socket, sys\n"
         "s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)\n"
         "s.sendall(b'GET /healthz HTTP/1.1\\r\\n\\r\\n')\n"
         "print(s.recv(999))",
         address,
         std::to_string(port)});
    return client.wait_for_code() == 0 && has(client.out(), "200 OK");
}

}  // namespace

TEST_CASE("the daemon says its port, answers, and detaches on SIGTERM and SIGINT") {
    for (const int signal : {SIGTERM, SIGINT}) {
        Daemon daemon;
        CHECK(has(
            RawClient(daemon.port).say("GET /healthz HTTP/1.1\r\n\r\n").hear_to_the_end(), "ok"));
        RawClient agent(daemon.port);
        agent.say("DDPRUN/1\n");
        agent.hear_message();

        daemon.process.signal(signal);

        CHECK(daemon.process.wait_for_code() == 0);
        CHECK(agent.hear_to_the_end() == "");
    }
    CHECK(left_behind() == "");
}

TEST_CASE("clients of PyTorch 2.1 are served with --legacy-c10d, and else refused by name") {
    const std::string add_init{"\x03\x05\0\0\0\0\0\0\0init/\x01\0\0\0\0\0\0\0", 22};
    const std::string one{"\x01\0\0\0\0\0\0\0", 8};
    Daemon serves({"--legacy-c10d"});
    Daemon refuses;

    CHECK(RawClient(serves.port).say(add_init).hear(8) == one);
    CHECK(RawClient(refuses.port).say(add_init).hear_to_the_end() == "");
    CHECK(
        has(refuses.process.wait_for_line("rendezvous.rejected"), "PyTorch client older than 2.2"));
}

TEST_CASE("the daemon names a garbage sender once and goes on") {
    Daemon daemon;
    RawClient(daemon.port).say("garbage\n").hear_to_the_end();

    CHECK(has(daemon.process.wait_for_line("rendezvous.rejected"), "peer=127.0.0.1:"));
    CHECK_FALSE(daemon.process.has_exited());
}

// UBSan reads memory through a pipe, and reports every object when it cannot open one.
#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("too few descriptors are named with their limit before the daemon listens") {
    for (const std::string limit : {"8", "12", "20"}) {
        auto process = with_descriptors(limit);
        CHECK(process.wait_for_code() == 1);
        CHECK(
            has(process.err(),
                "ddprun-rendezvous: the hard limit of open files is " + limit +
                    " (RLIMIT_NOFILE), but "));
        CHECK(std::count(process.err().begin(), process.err().end(), '\n') == 1);
    }
}

TEST_CASE("a store that has no descriptors turns its callers away, and is served afterwards") {
    auto process = with_descriptors("40");
    const auto port =
        static_cast<std::uint16_t>(process.wait_for_number("rendezvous.listening port="));
    const auto validate_and_ping = std::string{"\0\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04", 10};
    const auto open_count = [&] {
        const std::filesystem::path folder = "/proc/" + std::to_string(process.pid()) + "/fd";
        return std::distance(std::filesystem::directory_iterator{folder}, {});
    };
    const auto before = open_count();
    {
        // One more descriptor is for the store's client, and the store itself needs three.
        std::vector<std::unique_ptr<RawClient>> crowd;
        for (auto i = before; i < 37; ++i)
            crowd.push_back(std::make_unique<RawClient>(port));
        REQUIRE(holds_within(fact_timeout, [&] { return open_count() == 37; }));
        for (int i = 0; i < 8; ++i)
            CHECK(RawClient(port).say(validate_and_ping).hear_to_the_end() == "");
        process.wait_for_line("rendezvous.store_not_started");
    }
    CHECK(holds_within(fact_timeout, [&] { return open_count() == before; }));
    CHECK(RawClient(port).say(validate_and_ping).hear(4) == "\x01\x02\x03\x04");
    CHECK(
        has(RawClient(port).say("GET /metrics HTTP/1.1\r\n\r\n").hear_to_the_end(),
            "ddprun_connections_total{protocol=\"c10d\"} 1\n"));
    CHECK_FALSE(process.has_exited());
}

TEST_CASE("at the end of descriptors callers are turned away, and served again afterwards") {
    auto process = with_descriptors("40");
    const auto port =
        static_cast<std::uint16_t>(process.wait_for_number("rendezvous.listening port="));
    {
        std::vector<std::unique_ptr<RawClient>> crowd;
        for (int i = 0; i < 40; ++i)
            crowd.push_back(std::make_unique<RawClient>(port));
        process.wait_for_line("listener.accept_failed");

        CHECK(RawClient(port).hear_to_the_end() == "");
    }

    const auto is_served = [&] {
        const auto text = RawClient(port).say("GET /healthz HTTP/1.1\r\n\r\n").hear_to_the_end();
        return has(text, "200 OK");
    };
    CHECK(holds_within(fact_timeout, is_served));
    CHECK_FALSE(process.has_exited());
}
#endif

TEST_CASE("a log that is not read delays no job") {
    Running process(
        program("ddprun-rendezvous"),
        {"--host", "localhost", "--port", "0", "--log-level", "debug"});
    const auto port =
        static_cast<std::uint16_t>(process.wait_for_number("rendezvous.listening port="));
    RawClient agent(port);
    agent.say("DDPRUN/1\n").hear_message();
    control::Join join;
    join.run_id = "quiet";
    join.node.host = "here";
    join.nodes = {2, 2, 0};
    join.addr = "127.0.0.1";
    agent.say_message(join);
    CHECK(std::holds_alternative<control::Welcome>(agent.hear_message()));

    // Each heartbeat is logged, and a pipe holds about a thousand lines.
    for (std::uint64_t seq = 1; seq <= 5000; ++seq) {
        agent.say_message(control::Heartbeat{seq});
        REQUIRE(std::get<control::HeartbeatAck>(agent.hear_message()).seq == seq);
    }
    process.signal(SIGTERM);

    CHECK(process.wait_for_code() == 0);
}

TEST_CASE("a second daemon on the same port names the first and ends with 1") {
    Daemon daemon;

    const Said second({"--host", "localhost", "--port", std::to_string(daemon.port)});

    CHECK(second.code == 1);
    CHECK(has(second.err, "127.0.0.1:" + std::to_string(daemon.port)));
    CHECK(has(second.err, "ddprun-rendezvous (pid " + std::to_string(daemon.process.pid()) + ")"));
    CHECK(has(second.err, "Address already in use"));
}

TEST_CASE("machines with addresses of one family only are served, with and without --host") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair pair;
    const auto& v4 = pair.a();
    const auto& v6 = pair.b();
    const auto ip = [](std::vector<std::string> words) {
        return Running("ip", std::move(words)).wait_for_code() == 0;
    };
    if (!set(v4.name, "ipv6/conf/all/disable_ipv6", "1"))
        return skip_even_as_root("IPv6 cannot be switched off here");
    if (!ip({"-n", v6.name, "address", "add", "fd77::1/64", "dev", v6.name, "nodad"}))
        return skip_even_as_root("no IPv6");
    for (const auto& device : {std::string{"lo"}, v6.name})
        REQUIRE(ip({"-n", v6.name, "-4", "address", "flush", "dev", device}));

    CHECK(serves_at(v4.name, "", v4.address));
    CHECK(serves_at(v4.name, "localhost", "127.0.0.1"));
    CHECK(serves_at(v6.name, "", "fd77::1"));
    CHECK(serves_at(v6.name, "localhost", "::1"));
    CHECK(serves_at(v6.name, "fd77::1", "fd77::1"));
}

TEST_CASE("a backlog smaller than usual is named with the setting that bounds it") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair pair;
    if (!set(pair.a().name, "core/somaxconn", "17"))
        return skip_even_as_root("net.core.somaxconn cannot be changed here");

    auto daemon = in_namespace(
        pair.a().name, program("ddprun-rendezvous"), {"--host", "127.0.0.1", "--port", "0"});

    const auto line = daemon.wait_for_line("listener.backlog_small");
    CHECK(has(line, "backlog=17 usual=4096 "));
    CHECK(has(line, "net.core.somaxconn"));
    daemon.wait_for_line("rendezvous.listening");
}

TEST_CASE("as the first process of a container the daemon ends at SIGTERM") {
    if (const auto reason = why_no_mount_namespace(); !reason.empty()) return skip(reason);
    Running container(
        "unshare",
        {"--pid",
         "--fork",
         "--kill-child",
         program("ddprun-rendezvous"),
         "--host",
         "127.0.0.1",
         "--port",
         "0"});
    container.wait_for_line("rendezvous.listening");
    const auto unshare = std::to_string(container.pid());
    pid_t first = 0;
    std::ifstream("/proc/" + unshare + "/task/" + unshare + "/children") >> first;
    REQUIRE(first > 0);

    ::kill(first, SIGTERM);

    CHECK(container.wait_for_code() == 0);
}

TEST_CASE("an address of another machine cannot be listened on, in one line") {
    const Said said({"--host", "192.0.2.1", "--port", "0"});

    CHECK(said.code == 1);
    CHECK(has(said.err, "192.0.2.1"));
    CHECK(said.err.find('\n') == said.err.size() - 1);
}

TEST_CASE("wrong options are named and end with 2") {
    CHECK(has(Said({"--port", "70000"}).err, "--port"));
    CHECK(Said({"--port", "70000"}).code == 2);
    CHECK(Said({"--port", "x"}).code == 2);
    CHECK(Said({"--log-level", "loud"}).code == 2);
    CHECK(Said({"--host", "no.such.name"}).code == 2);
    CHECK(Said({"--prot", "1"}).code == 2);
    CHECK(Said({"surplus"}).code == 2);
}

TEST_CASE("help and version go to standard output and end with 0") {
    const Said version({"--version"});
    const Said help({"--help"});

    CHECK(version.code == 0);
    CHECK(has(version.out, "ddprun-rendezvous "));
    CHECK(has(version.out, "\ncontrol protocol DDPRUN/1, versions 1 to 2, store protocol c10d "));
    CHECK(has(version.out, "\nfeatures: TLS 1.3, etcd, "));
    CHECK(help.code == 0);
    for (const auto* option : {"--host", "--port", "--log-level", "--version"})
        CHECK(has(help.out, option));
    CHECK(version.err + help.err == "");
}

}  // namespace ddprun::test
