// SPDX-License-Identifier: Apache-2.0
// `ddprunctl --rdzv-endpoint`: commands to the rendezvous server, from any machine.
#include "rendezvous/control/codec.hpp"
#include "tests/process/ddprun/ctl.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>

using namespace ddprun;
using namespace ddprun::test;

namespace {

const std::string teller = "echo world $WORLD_SIZE round $DDPRUN_ROUND\n" + wait_for_ever;

std::string line_of(char letter) {
    return "ddprun-secret-1:" + std::string(43, letter) + "\n";
}

std::string secret_file(const TempDir& dir, const std::string& name, char letter) {
    auto path = dir.write(name, line_of(letter));
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    return path;
}

/// A daemon on loopback, and callers of it that have no file of --secure.
class Server {
public:
    explicit Server(const Words& options)
        : daemon_{program("ddprun-rendezvous"), Words{"--host=127.0.0.1", "--port=0"} + options} {
        endpoint = "127.0.0.1:" + std::to_string(daemon_.wait_for_number("port="));
    }

    Running node(
        const TempDir& dir, const Words& options, const std::string& script = teller) const {
        const Words own{
            "--rdzv-backend=c10d",
            "--rdzv-endpoint=" + endpoint,
            "--rdzv-conf=last_call_timeout=2,is_host=0"};
        return start_job(dir, own + options, script);
    }
    std::uint16_t port() const {
        return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.find(':') + 1)));
    }
    Running& daemon() { return daemon_; }

    std::string endpoint;

private:
    Running daemon_;
};

/// `ddprunctl` of a user alice, whose home has no secret.
Outcome remote(const TempDir& dir, const Words& words, const std::string& variable = {}) {
    Running::Options options;
    options.arguments = words;
    options.environment["USER"] = "alice";
    options.environment["HOME"] = dir.path().string();
    if (!variable.empty()) options.environment["DDPRUN_SECRET"] = variable;
    return outcome_of(Running{program("ddprunctl"), options});
}

bool is_one_line(const std::string& text) {
    return text.find('\n') + 1 == text.size();
}

}  // namespace

TEST_CASE(
    "a job is shown, drained and stopped through its server, and the causes have the sender") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", 'P');
    Server server{{"--secret-file=" + file}};
    const auto id = fresh_id();
    const auto report = (dir / "report.json").string();
    const Words options{"--rdzv-id=" + id, "--nnodes=1:2", "--rdzv-secret-file=" + file};
    auto a = server.node(dir, options);
    auto b = server.node(dir, options + Words{"--report-file=" + report});
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");
    const auto at_server = [&](const Words& words) {
        return remote(
            dir, words + Words{"--rdzv-endpoint=" + server.endpoint, "--rdzv-secret-file=" + file});
    };

    const auto list = at_server({"ps"});
    CHECK(list.code == 0);
    CHECK(contains(list.out, id));
    const auto shown = Json::parse(at_server({"status", id, "--json"}).out)["job"];
    CHECK(shown["world_size"] == 2);
    std::string nonce;
    for (const auto& node : shown["nodes"])
        if (node["pid"] == b.pid()) nonce = node["nonce"];
    CHECK(contains(at_server({"status"}).out, nonce));

    const auto drain = at_server({"drain", id, nonce});
    CHECK(drain.code == 0);
    CHECK(contains(drain.out, " leaves; the job goes on with 1 node\n"));
    CHECK(b.wait_for_code() == 85);
    a.wait_for_line("world 1 round 1");
    const std::string by = "by ddprunctl at 127.0.0.1 (stated: alice@";
    CHECK(contains(b.err(), "node.drained reason=\"drained " + by));
    CHECK(contains(read_file(report), "drained " + by));
    CHECK(contains(at_server({"status", id}).out, "drained " + by));
    const auto host =
        Json::parse(at_server({"status", id, "--json"}).out)["job"]["drained_hosts"].at(0)["host"];
    CHECK(at_server({"undrain", id, host}).code == 0);

    const auto longer = at_server({"stop", id, "--grace=1h"});
    CHECK(longer.code == 1);
    CHECK(contains(longer.err, "longer than the job's own"));
    const auto stop = at_server({"stop", id});
    CHECK(stop.code == 0);
    CHECK(stop.out == id + ": its workers have 30 s to end\n");
    CHECK(a.wait_for_code() == 143);
    CHECK(contains(a.err(), "reason=\"stopped " + by));
    // The report breaks its lines.
    CHECK(contains(a.err(), "job was cancelled: stopped by ddprunctl at 127.0.0.1"));
    server.daemon().wait_for_line("command.obeyed.*command=\"drain job=" + id);
    server.daemon().wait_for_line("command.refused.*command=\"stop job=" + id + " grace=3600 s\"");
    server.daemon().wait_for_line("command.obeyed.*command=\"stop job=" + id + "\".*alice@");
    server.daemon().signal(SIGTERM);
    CHECK(server.daemon().wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a command without the job's secret does nothing, and says what to give") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", 'P');
    const Server server{{"--secret-file=" + file}};
    const auto id = fresh_id();
    auto a = server.node(dir, {"--rdzv-id=" + id, "--nnodes=1:2", "--rdzv-secret-file=" + file});
    a.wait_for_line("world 1 round 0");
    const Words stop{"stop", id, "--rdzv-endpoint=" + server.endpoint};

    const auto none = remote(dir, stop);
    CHECK(none.code == 2);
    CHECK(contains(none.err, "give --rdzv-secret-file=PATH or DDPRUN_SECRET"));
    const auto wrong = remote(dir, stop, line_of('O'));
    CHECK(wrong.code == 4);
    CHECK(contains(wrong.err, "does not accept the secret of DDPRUN_SECRET; give the job's own"));
    const auto json = remote(dir, stop + Words{"--json"}, line_of('O'));
    CHECK(json.code == 4);
    CHECK(Json::parse(json.out)["done"] == false);
    for (const auto& outcome : {none, wrong})
        CHECK(is_one_line(outcome.err));
    {
        RawClient caller(server.port());
        caller.say(control::preamble);
        caller.say_message(control::JobCommand{control::JobCommand::What::stop, id});
        CHECK(std::get<control::Refused>(caller.hear_message()).needs_secret);
        CHECK(caller.hear_to_the_end().empty());
    }
    const Words unknown{"stop", "another", "--rdzv-endpoint=" + server.endpoint};
    const auto no_job = remote(dir, unknown, line_of('P'));
    CHECK(no_job.code == 3);
    CHECK(contains(no_job.err, "no job 'another' on this server; there are: " + id));

    CHECK(remote(dir, stop, line_of('P')).code == 0);
    CHECK(a.wait_for_code() == 143);
}

TEST_CASE("workers of all nodes get a signal of another machine, and what they do is shown") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", 'P');
    Server server{{"--secret-file=" + file}};
    const auto id = fresh_id();
    const std::string counter =
        "trap 'echo $RANK got USR1' USR1\n"
        "mkfifo \"$0.$$\" && exec 3<>\"$0.$$\"\n"
        "echo world $WORLD_SIZE rank $RANK\n"
        "while :; do read -r line <&3; done";
    const std::string sleeper = "echo world $WORLD_SIZE rank $RANK\nexec sleep 1000";
    const Words options{"--rdzv-id=" + id, "--nnodes=2", "--rdzv-secret-file=" + file};
    auto a = server.node(dir, options + Words{"--nproc-per-node=2"}, counter);
    auto b = server.node(dir, options, sleeper);
    a.wait_for_line("world 3 rank");
    a.wait_for_line("world 3 rank");
    b.wait_for_line("world 3 rank");
    const bool is_first = contains(a.out(), "rank 0");
    const std::string ranks = is_first ? "0-1" : "1-2";
    const std::string sleeping = is_first ? "2" : "0";
    const Words there{"--rdzv-endpoint=" + server.endpoint};

    for (const auto& words :
         {Words{"signal", id, "USR1", "--ranks=" + ranks}, Words{"stacks", id}}) {
        const auto wrong = remote(dir, words + there, line_of('O'));
        CHECK(wrong.code == 4);
        CHECK(contains(wrong.err, "does not accept the secret of DDPRUN_SECRET"));
    }
    const auto signal =
        remote(dir, Words{"signal", id, "USR1", "--ranks=" + ranks} + there, line_of('P'));
    CHECK(signal.code == 0);
    CHECK(contains(
        signal.out,
        id + ": SIGUSR1 to ranks " + std::string(1, ranks[0]) + " to " + ranks[2] + " on "));
    a.wait_for_line("got USR1");
    a.wait_for_line("got USR1");
    a.wait_for_line("command.obeyed.*signal_workers SIGUSR1.*ddprunctl at.*alice@");

    Json seen;
    CHECK(holds_within(fact_timeout, [&] {
        const auto stacks =
            remote(dir, Words{"stacks", id, "--ranks=" + sleeping, "--json"} + there, line_of('P'));
        if (stacks.code != 0) return false;
        seen = Json::parse(stacks.out);
        return seen.size() == 1 && seen[0]["site"] == "clock_nanosleep(2)";
    }));
    INFO(seen.dump());
    CHECK(std::to_string(seen[0]["rank"].get<int>()) == sleeping);
    CHECK(contains(seen[0]["stacks"], "no Python interpreter"));
    const auto all = remote(dir, Words{"stacks", id} + there, line_of('P'));
    INFO(all.err);
    CHECK(all.code == 0);
    for (const std::string rank : {"0", "1", "2"})
        CHECK(contains(all.out, "rank " + rank + ", pid "));
    const auto none = remote(dir, Words{"stacks", id, "--ranks=3"} + there, line_of('P'));
    CHECK(none.code == 1);
    CHECK(contains(none.err, "there is no rank 3: the job has ranks 0 to 2"));
    server.daemon().wait_for_line("command.obeyed.*command=\"signal job=" + id + " SIGUSR1");
    server.daemon().wait_for_line("command.obeyed.*command=\"stacks job=" + id);

    CHECK(remote(dir, Words{"stop", id} + there, line_of('P')).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(b.wait_for_code() == 143);
    // The refused signals have reached no worker: each has had one.
    const auto& out = a.out();
    const auto first = out.find("got USR1");
    const auto second = out.find("got USR1", first + 1);
    CHECK(out.find("got USR1", second + 1) == out.npos);
    CHECK_FALSE(contains(b.out(), "got"));
}

TEST_CASE("an agent that is stopped has not answered a command of another machine") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", 'P');
    const Server server{{"--secret-file=" + file}};
    const auto id = fresh_id();
    auto a = server.node(dir, {"--rdzv-id=" + id, "--nnodes=1:2", "--rdzv-secret-file=" + file});
    a.wait_for_line("world 1 round 0");
    REQUIRE(::kill(agent_of(a), SIGSTOP) == 0);
    const auto signal =
        remote(dir, {"signal", id, "USR2", "--rdzv-endpoint=" + server.endpoint}, line_of('P'));
    CHECK(::kill(agent_of(a), SIGCONT) == 0);
    CHECK(signal.code == 5);
    CHECK(contains(signal.err, "the agent has not answered within 8 s, and may still do it"));
    // It does it now, and the signal ends the worker.
    a.wait_for_line("worker.exited.*SIGUSR2");
    CHECK(a.wait_for_code() != 0);
}

TEST_CASE("a server without a secret performs no command of another machine") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", 'P');
    Server server{{}};
    const auto id = fresh_id();
    auto a = server.node(dir, {"--rdzv-id=" + id, "--nnodes=1:2"});
    a.wait_for_line("world 1 round 0");

    const auto outcome =
        remote(dir, {"stop", id, "--rdzv-endpoint=" + server.endpoint}, line_of('P'));
    CHECK(outcome.code == 4);
    CHECK(contains(outcome.err, "answers without encryption; nothing was sent"));
    CHECK(contains(outcome.err, "run ddprunctl on their nodes"));
    for (const auto what : {control::JobCommand::What::stop, control::JobCommand::What::show}) {
        RawClient caller(server.port());
        caller.say(control::preamble);
        caller.say_message(control::JobCommand{what, id});
        CHECK(std::holds_alternative<control::Hello>(caller.hear_message()));
        const auto answer = std::get<control::JobCommandAnswer>(caller.hear_message());
        CHECK(answer.outcome == control::JobCommandAnswer::Outcome::not_allowed);
        CHECK(contains(answer.text, "--rdzv-secret-file or DDPRUN_SECRET"));
        CHECK(answer.jobs.empty());
        CHECK(caller.hear_to_the_end().empty());
    }
    server.daemon().wait_for_line("command.refused.*not_allowed");
    CHECK(is_running(id));
    a.signal(SIGTERM);
    CHECK(a.wait_for_code() == 143);
}

TEST_CASE("where no rendezvous server is, a command ends with one line") {
    const TempDir dir;
    const auto at = [&](const std::string& endpoint, int code = 5) {
        const auto outcome = remote(dir, {"ps", "--rdzv-endpoint=" + endpoint}, line_of('P'));
        CHECK(outcome.code == code);
        CHECK(is_one_line(outcome.err));
        return outcome.err;
    };
    const auto nothing = at("127.0.0.1:" + std::to_string(free_port()));
    CHECK(contains(nothing, "Connection refused"));
    CHECK(contains(nothing, "accepted is HOST[:PORT] of the job's rendezvous server"));
    const auto name = at("no-such-host.invalid");
    CHECK(contains(name, "no-such-host.invalid"));
    Running other{
        "python3",
        Words{
            "-uc",
            "import http.server as h\n"
            "s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)\n"
            "print('port', s.server_port)\n"
            "s.serve_forever()\n"}};
    const auto foreign = at("127.0.0.1:" + std::to_string(other.wait_for_number("port ")), 4);
    CHECK(contains(foreign, "it is no rendezvous server of ddprun, or its jobs have no secret"));
    other.signal(SIGKILL);
    other.wait_for_exit();
}

TEST_CASE("for a tenant the jobs of another are neither shown nor stopped") {
    const TempDir dir;
    std::filesystem::create_directory(dir / "tenants");
    secret_file(dir, "tenants/blue", 'B');
    secret_file(dir, "tenants/red", 'R');
    const Server server{{"--secret-dir=" + (dir / "tenants").string()}};
    const auto id = fresh_id();
    auto a = server.node(
        dir,
        {"--rdzv-id=" + id, "--nnodes=1:2", "--rdzv-secret-file=" + secret_file(dir, "blue", 'B')});
    a.wait_for_line("world 1 round 0");
    const auto as = [&](char letter, const Words& words) {
        return remote(dir, words + Words{"--rdzv-endpoint=" + server.endpoint}, line_of(letter));
    };

    CHECK_FALSE(contains(as('R', {"ps"}).out, id));
    CHECK(as('R', {"status"}).code == 3);
    for (const auto& words :
         {Words{"stop", id},
          Words{"drain", id, "0"},
          Words{"undrain", id, "0"},
          Words{"status", id}}) {
        const auto outcome = as('R', words);
        CHECK(outcome.code == 3);
        CHECK(contains(outcome.err, "no job '" + id + "' on this server; it has none that runs"));
    }
    CHECK(contains(as('B', {"ps"}).out, id));
    CHECK(as('B', {"stop", id}).code == 0);
    CHECK(a.wait_for_code() == 143);
}

TEST_CASE("of several jobs of a server one must be named") {
    const TempDir dir;
    const auto file = secret_file(dir, "secret", 'P');
    const Server server{{"--secret-file=" + file}};
    const auto one = fresh_id();
    const auto two = fresh_id();
    const auto node = [&](const std::string& id) {
        return server.node(dir, {"--rdzv-id=" + id, "--nnodes=1:2", "--rdzv-secret-file=" + file});
    };
    auto a = node(one);
    auto b = node(two);
    a.wait_for_line("world 1 round 0");
    b.wait_for_line("world 1 round 0");
    const Words there{"--rdzv-endpoint=" + server.endpoint, "--rdzv-secret-file=" + file};

    const auto status = remote(dir, Words{"status"} + there);
    CHECK(status.code == 2);
    CHECK(contains(status.err, "several jobs are meant: "));
    CHECK(remote(dir, Words{"stop", one} + there).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(is_running(two));
    CHECK(remote(dir, Words{"stop", two} + there).code == 0);
    CHECK(b.wait_for_code() == 143);
}

TEST_CASE("from another machine a job whose node has the server is stopped on all nodes") {
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const TempDir dir;
    const NetworkPair hosts;
    const auto file = secret_file(dir, "secret", 'P');
    const auto id = fresh_id();
    const auto endpoint = "--rdzv-endpoint=" + hosts.a().address + ":29400";
    const auto path = dir.write_script("worker", "#!/bin/sh\n" + teller + "\n");
    const auto node = [&] {
        Running::Options options;
        options.arguments = Words{
            "--nnodes=2",
            "--rdzv-id=" + id,
            endpoint,
            "--rdzv-secret-file=" + file,
            "--no-python",
            path};
        options.network_namespace = hosts.a().name;
        return Running{program("ddprun"), options};
    };
    auto a = node();
    auto b = node();
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");

    // No agent is in this namespace.
    Running::Options options;
    options.arguments = Words{"stop", id, endpoint, "--rdzv-secret-file=" + file};
    options.network_namespace = hosts.b().name;
    const auto stop = outcome_of(Running{program("ddprunctl"), options});
    CHECK(stop.code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(b.wait_for_code() == 143);
    const auto cause = "stopped by ddprunctl at " + hosts.b().address + " (stated: ";
    CHECK(contains(a.err(), cause));
    CHECK(contains(b.err(), cause));
}
