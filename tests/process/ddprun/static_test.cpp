// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/raw_client.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string_view>

using namespace ddprun::test;

namespace {

/// Node 0 and the others of a job with fixed node ranks, on this machine's loopback.
struct Master {
    std::string port = std::to_string(free_port());

    Words node(int rank, const Words& more = {}) const {
        return Words{
                   "--nnodes=2",
                   "--master-addr=127.0.0.1",
                   "--master-port=" + port,
                   "--node-rank=" + std::to_string(rank)} +
               more;
    }
};

}  // namespace

TEST_CASE("with fixed places each node has its rank and workers get the address as it was given") {
    const TempDir dir;
    const Master master;
    const std::string script =
        "echo $RANK $GROUP_RANK $MASTER_ADDR $MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE";

    auto b = start_job(dir, master.node(1), script);
    auto a = start_job(dir, master.node(0), script);

    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(a.out() == "0 0 127.0.0.1 " + master.port + " True\n");
    CHECK(b.out() == "1 1 127.0.0.1 " + master.port + " True\n");
    CHECK(no_descendants_left());
}

TEST_CASE("one node with a master port serves its workers exactly there") {
    const TempDir dir;
    const auto port = std::to_string(free_port());

    auto job = start_job(dir, {"--master-port=" + port}, "echo $MASTER_ADDR $MASTER_PORT");

    CHECK(job.wait_for_code() == 0);
    CHECK(job.out() == "127.0.0.1 " + port + "\n");
}

TEST_CASE("a restart with fixed places keeps the address and both nodes") {
    const TempDir dir;
    const Master master;
    const std::string script =
        "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo again $RANK $MASTER_PORT; exit 0; fi\n"
        "if [ $RANK = 1 ]; then exit 3; fi\n" +
        wait_for_ever;

    auto a = start_job(dir, master.node(0, {"--max-restarts=1"}), script);
    auto b = start_job(dir, master.node(1, {"--max-restarts=1"}), script);

    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(a.out() == "again 0 " + master.port + "\n");
    CHECK(b.out() == "again 1 " + master.port + "\n");
    CHECK(no_descendants_left());
}

TEST_CASE("a connection opened in one round reaches nothing of the next") {
    using namespace std::string_view_literals;
    const TempDir dir;
    const Master master;
    const auto called = (dir / "called").string();
    const std::string script =
        "echo round $TORCHELASTIC_RESTART_COUNT\n"
        "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then\n"
        "  until test -e " +
        called + "; do sleep 0.01; done; exit 3\nfi\n" + wait_for_ever;
    auto a = start_job(dir, master.node(0, {"--max-restarts=1"}), script);
    auto b = start_job(dir, master.node(1, {"--max-restarts=1"}), script);
    a.wait_for_line("round 0");
    const auto port = static_cast<std::uint16_t>(std::stoi(master.port));
    RawClient early(port);
    early.say("\0\xCE"sv);
    // Answered only when the server has accepted the first caller too.
    CHECK(RawClient(port).say("GET /healthz HTTP/1.1\r\n\r\n").hear_to_the_end() != "");

    dir.write("called", "");
    a.wait_for_line("round 1");
    early.say("\xF7\x85\x3C\x0D\x01\x02\x03\x04"sv);

    CHECK(early.hear_to_the_end() == "");
    CHECK(
        RawClient(port).say("\0\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04"sv).hear(4) ==
        "\x01\x02\x03\x04");
    a.signal(SIGINT);
    CHECK(a.wait_for_code() == 130);
    CHECK(b.wait_for_code() == 130);
    CHECK(no_descendants_left());
}

TEST_CASE("a second node of the same rank is refused, both named, and the job goes on") {
    const TempDir dir;
    const Master master;
    const auto node = [&](const std::string& rank) {
        return Words{
            "--nnodes=3",
            "--master-addr=127.0.0.1",
            "--master-port=" + master.port,
            "--node-rank=" + rank};
    };
    auto a = start_job(dir, Words{"--log-level=info"} + node("0"), "true");
    auto b = start_job(dir, node("1"), "true");
    a.wait_for_line("2 of 3 ready");

    auto duplicate = start_job(dir, node("1"), "true");

    CHECK(duplicate.wait_for_code() == 83);
    CHECK(contains(duplicate.err(), "node rank 1"));
    CHECK(contains(duplicate.err(), "is taken by"));
    auto c = start_job(dir, node("2"), "true");
    CHECK(a.wait_for_code() == 0);
    CHECK(b.wait_for_code() == 0);
    CHECK(c.wait_for_code() == 0);
}

TEST_CASE("a port that is taken is said with its holder, because workers were promised it") {
    const TempDir dir;
    const Master master;
    auto first = start_job(dir, {"--master-port=" + master.port}, "echo up\n" + wait_for_ever);
    first.wait_for_line("up");

    auto second = start_job(dir, {"--master-port=" + master.port}, "true");

    CHECK(second.wait_for_code() != 0);
    CHECK(contains(second.err(), "port " + master.port + " is in use"));
    first.signal(SIGINT);
    CHECK(first.wait_for_code() == 130);
}
