// SPDX-License-Identifier: Apache-2.0
// Jobs with a secret, and callers without it.
#include "rendezvous/control/codec.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/session.hpp"
#include "tests/process/ddprun/http_get.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

const std::string planted(43, 'P');
const std::string planted_line = "ddprun-secret-1:" + planted + "\n";
const std::string other_line = "ddprun-secret-1:" + std::string(43, 'O') + "\n";

std::string secret_file(const TempDir& dir, const std::string& name, const std::string& text) {
    auto path = dir.write(name, text);
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    return path;
}

/// A node of a job of two that waits for the other one.
Running waiting_node(const TempDir& dir, const Rendezvous& rendezvous, const Words& options) {
    auto node = start_job(dir, rendezvous.options(Words{"--nnodes=2"} + options), "echo $RANK");
    node.wait_for_line("nodes.missing");
    return node;
}

std::uint16_t port_of(const Rendezvous& rendezvous) {
    return static_cast<std::uint16_t>(
        std::stoi(rendezvous.endpoint.substr(rendezvous.endpoint.find(':') + 1)));
}

/// Ends the waiting node and returns all that it has written.
std::string ended(Running node) {
    node.signal(SIGINT);
    node.wait_for_exit();
    return node.out() + node.err();
}

control::Join joining() {
    control::Join join;
    join.run_id = "tested";
    join.node.nonce = Nonce{{1}};
    join.node.host = "elsewhere";
    join.nodes = {2, 2, 0};
    join.store_port = 20'000;
    return join;
}

/// Refuses encryption on every connection, and records all received bytes.
class RecordingServer {
public:
    RecordingServer()
        : acceptor_(*net::listen(io_, "127.0.0.1", 0)),
          thread_([this] { serve(); }) {}
    ~RecordingServer() {
        ::shutdown(const_cast<net::Tcp::acceptor&>(acceptor_).native_handle(), SHUT_RDWR);
        thread_.join();
    }
    RecordingServer(const RecordingServer&) = delete;
    RecordingServer& operator=(const RecordingServer&) = delete;

    std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
    std::vector<std::string> heard() const {
        const std::lock_guard lock(mutex_);
        return heard_;
    }

private:
    void serve() {
        for (;;) {
            error_code ec;
            net::Tcp::socket socket(io_);
            acceptor_.accept(socket, ec);
            if (ec) return;
            std::string all;
            char bytes[4'096];
            for (;;) {
                const auto size = socket.read_some(boost::asio::buffer(bytes), ec);
                if (ec) break;
                if (all.empty())
                    boost::asio::write(socket, boost::asio::buffer(tls::no_encryption_here), ec);
                all.append(bytes, size);
            }
            const std::lock_guard lock(mutex_);
            heard_.push_back(std::move(all));
        }
    }

    boost::asio::io_context io_;
    net::Tcp::acceptor acceptor_;
    mutable std::mutex mutex_;
    std::vector<std::string> heard_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("two nodes with one secret form a job; it is in no output, log, report or worker") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto file = secret_file(dir, "secret", planted_line);
    const auto report = (dir / "report").string();
    const auto events = (dir / "events").string();
    const auto options = rendezvous.options(
        {"--nnodes=2", "--log-level=trace", "--report-file=" + report, "--event-file=" + events});
    const std::string script =
        "cat /proc/self/environ | tr '\\0' '\\n'; cat /proc/self/cmdline\n"
        "ls -l /proc/self/fd; exit 3";
    const auto path = dir.write_script("worker", "#!/bin/sh\n" + script + "\n");

    Running a(
        program("ddprun"),
        Words{"--rdzv-secret-file=" + file} + options + Words{"--no-python", path});
    Running::Options with_variable;
    with_variable.arguments = options + Words{"--no-python", path};
    with_variable.environment["DDPRUN_SECRET"] = planted_line;
    Running b(program("ddprun"), with_variable);

    CHECK(a.wait_for_code() == 3);
    CHECK(b.wait_for_code() == 3);
    const auto all = a.out() + a.err() + b.out() + b.err() + read_file(report) + read_file(events);
    CHECK(contains(a.out(), "RANK="));
    CHECK(contains(b.out(), "RANK="));
    CHECK_FALSE(contains(all, planted));
    CHECK_FALSE(contains(all, "DDPRUN_SECRET"));
    CHECK_FALSE(contains(all, "security.none"));
    CHECK(no_descendants_left());
}

TEST_CASE("--secure makes the user's secret, and nodes with the same home share it") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto path = dir.write_script("worker", "#!/bin/sh\necho $RANK of $WORLD_SIZE\n");
    Running::Options options;
    options.arguments = rendezvous.options({"--nnodes=2", "--secure"}) + Words{"--no-python", path};
    options.environment["HOME"] = dir.path().string();
    Running a(program("ddprun"), options);
    Running b(program("ddprun"), options);
    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(sorted_lines(a.out() + b.out()) == Words{"0 of 2", "1 of 2"});
    CHECK(read_file(dir / ".config/ddprun/secret").starts_with("ddprun-secret-1:"));
}

TEST_CASE("a node without the job's secret is refused, and the job goes on waiting") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto good = "--rdzv-secret-file=" + secret_file(dir, "good", planted_line);
    const auto wrong = secret_file(dir, "wrong", other_line);
    auto a = waiting_node(dir, rendezvous, {good});

    Words options;
    std::string reason;
    SUBCASE("another one") {
        options = {"--rdzv-secret-file=" + wrong};
        reason = rendezvous.endpoint + " does not accept the secret of " + wrong;
    }
    SUBCASE("none") {
        reason = "this job needs --rdzv-secret-file or --secure";
    }
    options.emplace_back("--report-format=json");
    auto b = start_job(dir, rendezvous.options(Words{"--nnodes=2"} + options), "echo wrong");
    CHECK(b.wait_for_code() == 83);
    CHECK(contains(b.err(), reason));
    CHECK(b.out().empty());

    auto c = start_job(dir, rendezvous.options({"--nnodes=2", good}), "echo $RANK");
    CHECK(c.wait_for_code() == 0);
    CHECK(a.wait_for_code() == 0);
}

TEST_CASE("a node with a secret sends nothing to a server without one") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto secret = secret_file(dir, "secret", planted_line);
    auto a = waiting_node(dir, rendezvous, {});
    auto b = start_job(
        dir,
        rendezvous.options({"--nnodes=2", "--rdzv-secret-file=" + secret, "--report-format=json"}),
        "echo wrong");
    CHECK(b.wait_for_code() == 83);
    CHECK(contains(b.err(), rendezvous.endpoint + " answers without encryption; nothing was sent"));
    CHECK_FALSE(contains(ended(std::move(a)), planted));
}

TEST_CASE("what a node with a secret says to a server without one is a client hello alone") {
    const TempDir dir;
    const auto secret = secret_file(dir, "secret", planted_line);
    const RecordingServer server;
    auto job = start_job(
        dir,
        {"--nnodes=2",
         "--rdzv-backend=c10d",
         "--rdzv-id=a-run-of-this-test",
         "--rdzv-endpoint=127.0.0.1:" + std::to_string(server.port()),
         "--rdzv-secret-file=" + secret},
        "echo wrong");
    CHECK(job.wait_for_code() == 83);
    const auto heard = server.heard();
    REQUIRE_FALSE(heard.empty());
    for (const auto& conversation : heard) {
        CHECK(conversation.starts_with("\x16\x03"));
        CHECK_FALSE(contains(conversation, "DDPRUN"));
        CHECK_FALSE(contains(conversation, "a-run-of-this-test"));
        CHECK_FALSE(contains(conversation, planted));
    }
}

TEST_CASE("a caller without the secret reads no job, joins none and stops none") {
    const TempDir dir;
    const Rendezvous rendezvous;
    auto a = waiting_node(
        dir, rendezvous, {"--rdzv-secret-file=" + secret_file(dir, "secret", planted_line)});
    const auto port = port_of(rendezvous);
    std::string reason;

    SUBCASE("in clear text it gets a reason, and its join is not read") {
        RawClient caller(port);
        caller.say(control::preamble).say_message(joining());
        const auto refused = std::get<control::Refused>(caller.hear_message());
        CHECK(refused.needs_secret);
        CHECK(caller.hear_to_the_end().empty());
    }
    SUBCASE("with a key of its own it gets an alert") {
        auto session =
            tls::Session::for_client(tls::control_key(tls::Secret{std::string(43, 'O')}));
        RawClient caller(port);
        caller.say(session.take_output());
        // The alert handshake_failure, and nothing else.
        CHECK(caller.hear_to_the_end() == std::string_view{"\x15\x03\x03\x00\x02\x02\x28", 7});
    }
    SUBCASE("bytes of a megabyte end as those of a few") {
        RawClient caller(port);
        caller.say(std::string_view{"\x16\x03\x01\x3f\xff", 5});
        caller.say(std::string(1024 * 1024, 'x'));
        caller.hear_to_the_end();
        reason = "the handshake is too long";
    }
    SUBCASE("the shared store is no job's and closed") {
        RawClient caller(port);
        caller.say(std::string_view{"\0\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04", 10});
        CHECK(caller.hear_to_the_end().empty());
    }

    if (!reason.empty()) a.wait_for_line(reason);
    const auto output = ended(std::move(a));
    CHECK(contains(output, "was cancelled"));
    CHECK_FALSE(contains(output, "elsewhere"));
}

TEST_CASE("a replayed conversation joins nothing") {
    const TempDir dir;
    const Rendezvous rendezvous;
    auto a = waiting_node(
        dir, rendezvous, {"--rdzv-secret-file=" + secret_file(dir, "secret", planted_line)});
    const auto port = port_of(rendezvous);
    std::string recorded;
    {
        RawClient member(port);
        auto session = tls::Session::for_client(tls::control_key(tls::Secret{planted}));
        std::string plain;
        const auto say = [&] {
            const auto bytes = session.take_output();
            recorded += bytes;
            member.say(bytes);
        };
        say();
        while (!session.is_established())
            REQUIRE(session.receive(member.hear(1), plain).has_value());
        session.send(control::preamble);
        // A different job, so that it takes no place of this one.
        auto other = joining();
        other.run_id = "another";
        session.send(control::encode(control::AgentMessage{other}));
        say();
        while (!contains(plain, "refused"))
            REQUIRE(session.receive(member.hear(1), plain).has_value());
        CHECK_FALSE(contains(recorded, "another"));
        CHECK_FALSE(contains(recorded, planted));
    }
    {
        RawClient replaying(port);
        replaying.say(recorded);
        replaying.hear_to_the_end();
    }
    // The server encrypts its messages, but does not reject a connection that it has greeted.
    a.wait_for_line("the two ends do not have the same secret");
    CHECK(contains(ended(std::move(a)), "was cancelled"));
}

TEST_CASE("a daemon with a secret serves nodes that have it, and takes a new one while it runs") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", planted_line);
    Running daemon(
        program("ddprun-rendezvous"),
        Words{"--host=127.0.0.1", "--port=0", "--secret-file=" + file});
    const auto port = daemon.wait_for_number("port=");
    const Words options{"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + std::to_string(port)};
    const auto run_with = [&](const std::string& secret) {
        auto job = start_job(
            dir, options + Words{"--rdzv-id=one", "--rdzv-secret-file=" + secret}, "exit 0");
        return job.wait_for_code();
    };
    CHECK(run_with(file) == 0);
    const auto next = secret_file(dir, "next", other_line);
    secret_file(dir, "secret", planted_line + other_line);
    CHECK(run_with(next) == 0);
    CHECK(run_with(file) == 0);
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);
    CHECK_FALSE(contains(daemon.out() + daemon.err(), planted));
}

TEST_CASE("pages of a server with a secret are for its user on its machine, or for a token") {
    if (::geteuid() != 0) return skip("another user needs root");
    const TempDir dir;
    const auto file = secret_file(dir, "secret", planted_line);
    Running daemon(
        program("ddprun-rendezvous"),
        Words{"--host=127.0.0.1", "--port=0", "--secret-file=" + file});
    const auto endpoint = "127.0.0.1:" + std::to_string(daemon.wait_for_number("port="));
    const auto token_of = [](const std::string& path) {
        Running ctl{program("ddprunctl"), Words{"token", "--secret-file=" + path}};
        CHECK(ctl.wait_for_code() == 0);
        const auto text = ctl.out();
        REQUIRE(text.size() == 65);
        return text.substr(0, 64);
    };
    const auto token = token_of(file);
    const auto another = token_of(secret_file(dir, "another", other_line));
    // Reads a page as another user, with the given field.
    const auto as_other_user = [&](const std::string& path, const std::string& field) {
        const std::string read =
            "import os, socket, sys\n"
            "os.setgroups([])\n"
            "os.setgid(65534)\n"
            "os.setuid(65534)\n"
            "s = socket.socket()\n"
            "s.settimeout(30)\n"
            "host, port = sys.argv[1].split(':')\n"
            "s.connect((host, int(port)))\n"
            "s.sendall(f'GET {sys.argv[2]} HTTP/1.1\\r\\n{sys.argv[3]}\\r\\n\\r\\n'.encode())\n"
            "print(s.makefile().read())\n";
        Running reader{"python3", Words{"-c", read, endpoint, path, field}};
        CHECK(reader.wait_for_code() == 0);
        return reader.out();
    };

    CHECK(http_get(endpoint, "/status").starts_with("HTTP/1.1 200"));
    for (const std::string path : {"/status", "/metrics"}) {
        const auto refused = as_other_user(path, "Accept: */*");
        CHECK(refused.starts_with("HTTP/1.1 401"));
        CHECK(contains(refused, "WWW-Authenticate: Bearer"));
        CHECK_FALSE(contains(refused, "uptime"));
        CHECK(as_other_user(path, "Authorization: Bearer " + another).starts_with("HTTP/1.1 401"));
        CHECK(as_other_user(path, "Authorization: Bearer " + token).starts_with("HTTP/1.1 200"));
    }
    CHECK(as_other_user("/healthz", "Accept: */*").starts_with("HTTP/1.1 200"));
    // A secret that is added at run time is accepted too.
    secret_file(dir, "secret", planted_line + other_line);
    CHECK(holds_within(fact_timeout, [&] {
        return as_other_user("/status", "Authorization: Bearer " + another)
            .starts_with("HTTP/1.1 200");
    }));
    CHECK_FALSE(contains(daemon.out() + daemon.err(), token));
}

TEST_CASE("on another machine no page of a job with a secret is read without its token") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const NetworkPair hosts;
    const auto path = dir.write_script("worker", "#!/bin/sh\necho up\n" + wait_for_ever + "\n");
    const auto node_at = [&](const NetworkPair::Host& host) {
        Running::Options options;
        options.arguments = Words{
            "--nnodes=2",
            "--rdzv-id=paged",
            "--rdzv-endpoint=" + hosts.a().address + ":29400",
            "--rdzv-secret-file=" + secret_file(dir, "secret", planted_line),
            "--no-python",
            path};
        options.network_namespace = host.name;
        return Running{program("ddprun"), options};
    };
    auto a = node_at(hosts.a());
    auto b = node_at(hosts.b());
    a.wait_for_line("^up$");
    b.wait_for_line("^up$");
    // On the second node's machine, whose agent has the token.
    const auto in_b = [&](const std::string& name, const Words& arguments) {
        Running::Options options;
        options.arguments = arguments;
        options.network_namespace = hosts.b().name;
        Running command{name, options};
        command.wait_for_code();
        return command.out();
    };
    const std::string read =
        "import socket\n"
        "s = socket.create_connection(('" +
        hosts.a().address +
        "', 29400), 30)\n"
        "s.sendall(b'GET /status HTTP/1.1\\r\\n\\r\\n')\n"
        "print(s.makefile().read())\n";
    CHECK(in_b("python3", {"-c", read}).starts_with("HTTP/1.1 401"));
    const auto status = in_b(program("ddprunctl"), {"status", "paged", "--json"});
    CHECK(contains(status, "\"run_id\": \"paged\""));
    CHECK_FALSE(contains(status, "problem"));
    CHECK_FALSE(contains(in_b(program("ddprunctl"), {"ps", "--json"}), "token"));
    for (auto* node : {&a, &b})
        node->signal(SIGTERM);
    CHECK(a.wait_for_code() == 143);
    CHECK(b.wait_for_code() == 143);
}

TEST_CASE("a secret that is none ends with a sentence that does not show it") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", planted + "\n");
    auto job = one_node(dir, {"--rdzv-secret-file=" + file}, "exit 0");
    CHECK(job.wait_for_code() == 2);
    CHECK(contains(job.err(), "--rdzv-secret-file: '" + file + "': line 1 is no secret"));
    Running daemon(program("ddprun-rendezvous"), Words{"--port=0", "--secret-file=" + file});
    CHECK(daemon.wait_for_code() == 2);
    CHECK(contains(daemon.err(), "--secret-file: '" + file + "': line 1 is no secret"));
    CHECK_FALSE(contains(job.err() + daemon.err(), planted));
}

TEST_CASE("a daemon takes the secret of the variable, and says so where it does not") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", planted_line);
    const auto daemon_with = [&](const std::string& value, const Words& arguments) {
        Running::Options options;
        options.arguments = Words{"--host=127.0.0.1", "--port=0"} + arguments;
        options.environment["DDPRUN_SECRET"] = value;
        return Running(program("ddprun-rendezvous"), options);
    };
    auto daemon = daemon_with(planted_line, {});
    const auto port = daemon.wait_for_number("port=");
    RawClient caller(static_cast<std::uint16_t>(port));
    caller.say(control::preamble);
    CHECK(std::get<control::Refused>(caller.hear_message()).needs_secret);
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);

    auto both = daemon_with(other_line, {"--secret-file=" + file});
    both.wait_for_number("port=");
    both.signal(SIGTERM);
    CHECK(both.wait_for_code() == 0);
    CHECK(contains(both.err(), "DDPRUN_SECRET: the secret of --secret-file is used"));

    auto wrong = daemon_with(planted, {});
    CHECK(wrong.wait_for_code() == 2);
    CHECK(contains(wrong.err(), "DDPRUN_SECRET: line 1 is no secret"));
    auto insecure = daemon_with(planted_line, {"--insecure"});
    CHECK(insecure.wait_for_code() == 2);
    CHECK(contains(insecure.err(), "--insecure: leave it out beside DDPRUN_SECRET"));
    CHECK_FALSE(contains(daemon.err() + wrong.err() + insecure.err(), planted));
}

TEST_CASE("a server for other machines without a secret warns of that, unless it is meant so") {
    if (const auto why = NetworkPair::why_not(); !why.empty()) return skip(why);
    const NetworkPair hosts;
    const TempDir dir;
    const auto warned = [&](const Words& arguments) {
        Running::Options options;
        options.arguments = Words{"--port=0"} + arguments;
        options.network_namespace = hosts.a().name;
        Running daemon(program("ddprun-rendezvous"), options);
        daemon.wait_for_line("rendezvous.listening");
        daemon.signal(SIGTERM);
        daemon.wait_for_exit();
        return contains(daemon.err(), "security.none");
    };
    CHECK(warned({"--host=0.0.0.0"}));
    CHECK_FALSE(warned({"--host=0.0.0.0", "--insecure"}));
    CHECK_FALSE(warned({"--host=127.0.0.1"}));
    CHECK_FALSE(warned({"--host=0.0.0.0", "--secret-file=" + secret_file(dir, "s", planted_line)}));

    const auto path = dir.write_script("worker", "#!/bin/sh\necho $RANK\n");
    const auto node_at = [&](const NetworkPair::Host& host, const Words& arguments) {
        Running::Options options;
        options.arguments = Words{"--nnodes=2", "--rdzv-endpoint=" + hosts.a().address} +
                            arguments + Words{"--no-python", path};
        options.network_namespace = host.name;
        return Running(program("ddprun"), options);
    };
    const auto job_is_warned = [&](const Words& arguments) {
        auto a = node_at(hosts.a(), arguments);
        auto b = node_at(hosts.b(), arguments);
        CHECK(a.wait_for_code() == 0);
        CHECK(b.wait_for_code() == 0);
        CHECK_FALSE(contains(b.err(), "security.none"));
        return contains(a.err(), "security.none");
    };
    CHECK(job_is_warned({}));
    CHECK_FALSE(job_is_warned({"--insecure"}));
    CHECK_FALSE(job_is_warned({"--rdzv-secret-file=" + (dir / "s").string()}));
}
