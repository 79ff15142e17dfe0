// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/http_get.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <regex>

using namespace ddprun::test;

namespace {

/// Prints its place once; ends when the world size is one.
const std::string finish_alone =
    "echo world $WORLD_SIZE round $DDPRUN_ROUND\nif [ $WORLD_SIZE = 1 ]; then exit 0; fi\n" +
    wait_for_ever;

std::string host_name() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

}  // namespace

TEST_CASE("two nodes form one world with one store") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=2", "--nproc-per-node=2"});
    const std::string script = "echo $RANK $WORLD_SIZE $GROUP_RANK $LOCAL_RANK $MASTER_PORT";

    auto a = start_job(dir, options, script);
    auto b = start_job(dir, options, script);

    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    const auto lines = sorted_lines(a.out() + b.out());
    REQUIRE(lines.size() == 4);
    const auto port = lines[0].substr(8);
    CHECK(
        lines == Words{"0 4 0 0 " + port, "1 4 0 1 " + port, "2 4 1 0 " + port, "3 4 1 1 " + port});
    CHECK(no_descendants_left());
}

TEST_CASE("node ranks decide the order of the nodes, and unequal nodes are normal") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const std::string script = "echo $RANK of $WORLD_SIZE";

    auto a = start_job(
        dir, rendezvous.options({"--nnodes=2", "--nproc-per-node=1", "--node-rank=1"}), script);
    auto b = start_job(
        dir, rendezvous.options({"--nnodes=2", "--nproc-per-node=2", "--node-rank=0"}), script);

    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(a.out() == "2 of 3\n");
    CHECK(sorted_lines(b.out()) == Words{"0 of 3", "1 of 3"});
}

TEST_CASE("a worker that fails on one node restarts both, on one budget") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=2", "--max-restarts=1"});
    const std::string script =
        "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo again $RANK; exit 0; fi\n"
        "if [ $RANK = 1 ]; then exit 3; fi\n" +
        wait_for_ever;

    auto a = start_job(dir, options, script);
    auto b = start_job(dir, options, script);

    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(sorted_lines(a.out() + b.out()) == Words{"again 0", "again 1"});
    CHECK(no_descendants_left());
}

TEST_CASE("a node that waits alone says what is missing, how to start it, and where it cannot be") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto host = host_name();

    auto node = start_job(
        dir, rendezvous.options({"--nnodes=2", "--rdzv-conf=join_timeout=8"}), wait_for_ever);

    const auto waiting = node.wait_for_line("nodes.missing");
    CHECK(contains(waiting, "1 of 2 nodes is here (" + host + "), 1 missing; the job fails in "));
    const auto command = "ddprun --nnodes=2 --rdzv-endpoint=" + rendezvous.endpoint;
    CHECK(contains(waiting, "on each missing node: " + command + " --rdzv-id=tested ..."));
    CHECK(contains(waiting, "other hosts each wait at their own"));
    CHECK(node.wait_for_code() == 80);
    const auto report = std::regex_replace(node.err(), std::regex{"\\n +"}, " ");
    CHECK(contains(report, "failed: 1 of 2 nodes joined within 8 s (" + host + ")"));
    CHECK(contains(report, " next step      on each missing node: " + command));
}

TEST_CASE("nodes that differ name each value's own node, in the report and in the server's log") {
    const TempDir dir;
    const Rendezvous rendezvous;
    auto two = start_job(dir, rendezvous.options({"--nnodes=2"}), wait_for_ever);
    REQUIRE(holds_within(fact_timeout, [&] {
        const auto port = rendezvous.endpoint.substr(rendezvous.endpoint.find(':') + 1);
        return RawClient::can_connect(static_cast<std::uint16_t>(std::stoi(port)));
    }));
    auto four = start_job(dir, rendezvous.options({"--nnodes=4"}), wait_for_ever);

    const auto on = [](const Running& node) {
        return " on " + host_name() + " (pid " + std::to_string(node.pid()) + ")";
    };
    const auto logged = two.wait_for_line("rendezvous.refused");
    CHECK(
        contains(logged, "--nnodes is 4" + on(four) + " and 2 in the job started" + on(two) + ";"));
    CHECK(four.wait_for_code() == 83);
    two.signal(SIGINT);
    CHECK(two.wait_for_code() == 130);
}

TEST_CASE("when the budget is spent every node reports the same root cause and code") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=2"});
    const std::string script = "if [ $RANK = 1 ]; then exit 9; fi\n" + wait_for_ever;

    auto a = start_job(dir, options, script);
    auto b = start_job(dir, options, script);

    CHECK(a.wait_for_code() == 9);
    CHECK(b.wait_for_code() == 9);
    for (const auto* node : {&a, &b}) {
        CHECK(contains(node->err(), "rank 1"));
        CHECK(contains(node->err(), "exited with code 9"));
    }
    CHECK(no_descendants_left());
}

TEST_CASE("Ctrl-C on one node ends the job on both") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=2"});
    const auto script = "echo up\n" + wait_for_ever;
    auto a = start_job(dir, options, script);
    auto b = start_job(dir, options, script);
    a.wait_for_line("up");
    b.wait_for_line("up");

    b.signal(SIGINT);

    CHECK(a.wait_for_code() == 130);
    CHECK(b.wait_for_code() == 130);
    CHECK(no_descendants_left());
}

TEST_CASE("a node lost with all its processes leaves a world of one that finishes") {
    for (const bool kills_agent : {false, true}) {
        CAPTURE(kills_agent);
        const TempDir dir;
        const Rendezvous rendezvous;
        const auto options = rendezvous.options({"--nnodes=1:2"});
        const auto script = "(echo wrapped; exec tail -f /dev/null) &\n" + finish_alone;
        auto host =
            start_job(dir, options + Words{"--rdzv-conf=is_host=1,last_call_timeout=60"}, script);
        auto other =
            start_job(dir, options + Words{"--rdzv-conf=is_host=0,last_call_timeout=60"}, script);
        host.wait_for_line("world 2");
        other.wait_for_line("world 2");

        const int agent = agent_of(other);
        ::kill(kills_agent ? agent : other.pid(), SIGKILL);

        host.wait_for_line("world 1");
        CHECK(host.wait_for_code() == 0);
        CHECK(other.wait_for_code() == (kills_agent ? 1 : 128 + SIGKILL));
        CHECK(is_gone(agent));
        CHECK(no_descendants_left());
    }
}

TEST_CASE("losing the node that hosts the rendezvous ends the job elsewhere with 81") {
    for (const bool kills_agent : {false, true}) {
        CAPTURE(kills_agent);
        const TempDir dir;
        const Rendezvous rendezvous;
        const auto options = rendezvous.options({"--nnodes=1:2"});
        auto host = start_job(
            dir, options + Words{"--rdzv-conf=is_host=1,last_call_timeout=60"}, finish_alone);
        auto other = start_job(
            dir, options + Words{"--rdzv-conf=is_host=0,last_call_timeout=60"}, finish_alone);
        host.wait_for_line("world 2");
        other.wait_for_line("world 2");

        ::kill(kills_agent ? agent_of(host) : host.pid(), SIGKILL);

        CHECK(other.wait_for_code() == 81);
        CHECK(contains(other.err(), "rendezvous"));
        CHECK(host.wait_for_code() == (kills_agent ? 1 : 128 + SIGKILL));
        CHECK(no_descendants_left());
    }
}

TEST_CASE("a node that comes late to an elastic job is let in by a restart") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=1:2", "--rdzv-conf=last_call_timeout=1"});
    const std::string script =
        "echo world $WORLD_SIZE round $DDPRUN_ROUND\nif [ $WORLD_SIZE = 2 ]; then exit 0; fi\n" +
        wait_for_ever;
    auto first = start_job(dir, options, script);
    first.wait_for_line("world 1 round 0");

    auto late = start_job(dir, options, script);

    CHECK(first.wait_for_code() == 0);
    CHECK(late.wait_for_code() == 0);
    CHECK(contains(first.out(), "world 2 round 1\n"));
    CHECK(late.out() == "world 2 round 1\n");
}

TEST_CASE("a node too many is refused with the way out") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=2"});
    const auto script = "echo up\n" + wait_for_ever;
    auto a = start_job(dir, options, script);
    auto b = start_job(dir, options, script);
    a.wait_for_line("up");
    b.wait_for_line("up");

    auto c = start_job(dir, options, script);

    CHECK(c.wait_for_code() == 83);
    CHECK(contains(c.err(), "--nnodes=3"));
    a.signal(SIGINT);
    CHECK(a.wait_for_code() == 130);
    CHECK(b.wait_for_code() == 130);
}

TEST_CASE("/status shows the job, its round, nodes and ranks while it runs") {
    const TempDir dir;
    const Rendezvous rendezvous;
    auto a = start_job(
        dir, rendezvous.options({"--nnodes=1", "--nproc-per-node=2"}), "echo up\n" + wait_for_ever);
    a.wait_for_line("up");
    a.wait_for_line("up");

    const auto status = http_get(rendezvous.endpoint, "/status");

    for (const auto* words :
         {"200 OK",
          "\"run_id\": \"tested\"",
          "\"state\": \"running\"",
          "\"round\": 0",
          "\"world_size\": 2",
          "\"group_rank\": 0"}) {
        CAPTURE(status);
        CHECK_MESSAGE(contains(status, words), words);
    }
    CHECK(contains(http_get(rendezvous.endpoint, "/healthz"), "200 OK"));
    a.signal(SIGINT);
    CHECK(a.wait_for_code() == 130);
}

TEST_CASE("one daemon serves several jobs, each with a world of its own") {
    const TempDir dir;
    Running daemon{
        program("ddprun-rendezvous"), {"--host=127.0.0.1", "--port=0", "--log-level=info"}};
    const auto endpoint =
        "--rdzv-endpoint=127.0.0.1:" + std::to_string(daemon.wait_for_number("port="));
    const auto start = [&](const std::string& id) {
        return start_job(
            dir,
            {"--rdzv-backend=c10d", endpoint, "--rdzv-id=" + id, "--nnodes=2"},
            "echo $TORCHELASTIC_RUN_ID $RANK $WORLD_SIZE");
    };

    auto x0 = start("x");
    auto y0 = start("y");
    auto x1 = start("x");
    auto y1 = start("y");

    for (auto* node : {&x0, &y0, &x1, &y1})
        CHECK(node->wait_for_code() == 0);
    CHECK(sorted_lines(x0.out() + x1.out()) == Words{"x 0 2", "x 1 2"});
    CHECK(sorted_lines(y0.out() + y1.out()) == Words{"y 0 2", "y 1 2"});
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("workers go on while a daemon is gone") {
    const TempDir dir;
    const auto port = std::to_string(free_port());
    Running daemon{
        program("ddprun-rendezvous"), {"--host=127.0.0.1", "--port=" + port, "--log-level=info"}};
    daemon.wait_for_line("listening");
    const auto go = (dir / "go").string();
    auto job = start_job(
        dir,
        {"--rdzv-backend=c10d",
         "--rdzv-endpoint=127.0.0.1:" + port,
         "--rdzv-id=x",
         "--nnodes=1:2",
         "--rdzv-conf=last_call_timeout=1"},
        "echo up $DDPRUN_ROUND\nwhile [ ! -e " + go + " ]; do sleep 0.05; done");
    job.wait_for_line("up 0");

    daemon.signal(SIGTERM);

    CHECK(daemon.wait_for_code() == 0);
    job.wait_for_line("rendezvous.lost");
    CHECK_FALSE(job.has_exited());
    job.signal(SIGINT);
    CHECK(job.wait_for_code() == 130);
    CHECK(no_descendants_left());
}

TEST_CASE("a daemon that is killed and started again takes its job up, and no worker notices") {
    const TempDir dir;
    const auto port = std::to_string(free_port());
    const Words daemon_options{"--host=127.0.0.1", "--port=" + port, "--log-level=info"};
    Running killed{program("ddprun-rendezvous"), daemon_options};
    killed.wait_for_line("listening");
    const auto go = (dir / "go").string();
    const auto start = [&] {
        return start_job(
            dir,
            {"--rdzv-backend=c10d",
             "--rdzv-endpoint=127.0.0.1:" + port,
             "--rdzv-id=x",
             "--nnodes=2"},
            "echo up $DDPRUN_ROUND\nwhile [ ! -e " + go + " ]; do sleep 0.05; done");
    };
    auto a = start();
    auto b = start();
    a.wait_for_line("up 0");
    b.wait_for_line("up 0");

    ::kill(killed.pid(), SIGKILL);
    CHECK(killed.wait_for_code() == 128 + SIGKILL);
    for (auto* node : {&a, &b})
        node->wait_for_line("rendezvous.lost");
    Running daemon{program("ddprun-rendezvous"), daemon_options};
    daemon.wait_for_line("round 0 goes on");
    const auto status = http_get("127.0.0.1:" + port, "/status");
    CHECK(contains(status, "\"state\": \"running\""));
    CHECK(contains(status, "\"round\": 0"));
    dir.write_script("go", "");

    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(a.out() + b.out() == "up 0\nup 0\n");
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a daemon that is started again ends the round of a node that died with the first one") {
    const TempDir dir;
    const auto port = std::to_string(free_port());
    const Words daemon_options{"--host=127.0.0.1", "--port=" + port, "--log-level=info"};
    Running killed{program("ddprun-rendezvous"), daemon_options};
    killed.wait_for_line("listening");
    // The round's store must not be on the node that dies: the other node's agent may not have
    // reached it yet when its worker is up.
    const auto start = [&](const std::string& node_rank) {
        return start_job(
            dir,
            {"--rdzv-backend=c10d",
             "--rdzv-endpoint=127.0.0.1:" + port,
             "--rdzv-id=x",
             "--nnodes=1:2",
             "--node-rank=" + node_rank,
             "--rdzv-conf=keep_alive_interval=5,keep_alive_max_attempt=3"},
            finish_alone);
    };
    auto a = start("0");
    auto b = start("1");
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");

    ::kill(killed.pid(), SIGKILL);
    ::kill(b.pid(), SIGKILL);
    CHECK(killed.wait_for_code() == 128 + SIGKILL);
    CHECK(b.wait_for_code() == 128 + SIGKILL);
    Running daemon{program("ddprun-rendezvous"), daemon_options};

    // If the daemon was itself stopped at the end of that time, it waits that time once more.
    daemon.wait_for_line("did not come back after the server was started again", 2 * fact_timeout);
    a.wait_for_line("world 1 round 2");
    CHECK(a.wait_for_code() == 0);
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);
    CHECK(no_descendants_left());
}
