// SPDX-License-Identifier: Apache-2.0
// Probes, fences and keepers of three nodes, each of which has neighbours to probe.
#include "rendezvous/base/limits.hpp"
#include "tests/process/ddprun/http_get.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::test;

namespace {

/// This lease is much longer than the test, so nothing in the test depends on its end.
const Words long_lease{
    "--rdzv-conf=last_call_timeout=60,keep_alive_interval=60,keep_alive_max_attempt=5"};

struct Daemon {
    Running process{
        program("ddprun-rendezvous"), {"--host=127.0.0.1", "--port=0", "--log-level=info"}};
    int port = process.wait_for_number("port=");

    /// Whether this many nodes have reported that their workers run, and which neighbours they
    /// reach.
    bool has_running_nodes(std::size_t wanted) const {
        return holds_within(fact_timeout, [&] {
            const auto status = http_get("127.0.0.1:" + std::to_string(port), "/status");
            const std::string running = "\"state\": \"running\"";
            std::size_t count = 0;
            for (auto at = status.find(running); at != std::string::npos;
                 at = status.find(running, at + 1))
                ++count;
            // The job itself is one of them.
            return count == wanted + 1;
        });
    }

    Words options(const Words& more) const {
        return Words{
                   "--rdzv-backend=c10d",
                   "--rdzv-id=tested",
                   "--rdzv-endpoint=127.0.0.1:" + std::to_string(port)} +
               long_lease + more;
    }
};

}  // namespace

TEST_CASE("the workers of an agent that is stopped are dead before their ranks are given away") {
    const TempDir dir;
    Daemon daemon;
    // If an agent was slow to answer when the round began, the stopped agent is lost only when its
    // lease ends.
    const auto options = daemon.options(
        {"--nnodes=2:3", "--rdzv-conf=keep_alive_interval=5,keep_alive_max_attempt=4"});
    // A worker of a later round checks for workers of the first round.
    const auto script = "if [ $DDPRUN_ROUND = 0 ]; then\n  echo $$ > " + dir.path().string() +
                        "/pid.$RANK; echo up $WORLD_SIZE\n  " + wait_for_ever + "\nfi\n" +
                        "for file in " + dir.path().string() + "/pid.*; do\n" +
                        "  state=$(grep ^State: /proc/$(cat $file)/status 2>/dev/null)\n" +
                        "  case \"$state\" in ''|*zombie*|*dead*) ;; *) echo two worlds;; esac\n"
                        "done\necho on with $WORLD_SIZE\n";
    std::vector<Running> nodes;
    for (int i = 0; i < 3; ++i)
        nodes.push_back(start_job(dir, options, script));
    for (auto& node : nodes)
        node.wait_for_line("up 3");
    REQUIRE(daemon.has_running_nodes(3));

    const int agent = agent_of(nodes[2]);
    ::kill(agent, SIGSTOP);

    for (int i : {0, 1}) {
        nodes[static_cast<std::size_t>(i)].wait_for_line("on with 2");
        CHECK(nodes[static_cast<std::size_t>(i)].wait_for_code() == 0);
        CHECK_FALSE(contains(nodes[static_cast<std::size_t>(i)].out(), "two worlds"));
    }
    // Its keeper has killed it.
    CHECK(nodes[2].wait_for_code() == 1);
    CHECK(is_gone(agent));
    daemon.process.signal(SIGTERM);
    CHECK(daemon.process.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("answered probes keep nodes alive while the server is silent: no worker notices") {
    const TempDir dir;
    Daemon daemon;
    const auto folder = dir.path().string();
    const std::string script = "echo up\nwhile [ ! -e " + folder +
                               "/ask ]; do sleep 0.1; done\necho still in round $DDPRUN_ROUND\n"
                               "while [ ! -e " +
                               folder + "/go ]; do sleep 0.1; done\n";
    std::vector<Running> nodes;
    for (int i = 0; i < 3; ++i)
        nodes.push_back(start_job(dir, daemon.options({"--nnodes=3", "--max-restarts=3"}), script));
    for (auto& node : nodes)
        node.wait_for_line("up");
    REQUIRE(daemon.has_running_nodes(3));

    daemon.process.signal(SIGSTOP);
    // Waits longer than the fence of a node whose probes are not answered.
    using std::chrono::milliseconds;
    const auto fence =
        std::chrono::duration_cast<milliseconds>(ddprun::limits::fence_after_silence);
    CHECK_FALSE(holds_within(2 * fence, [&] {
        return std::any_of(
            nodes.begin(), nodes.end(), [](auto& node) { return node.has_exited(); });
    }));
    dir.write("ask", "");
    for (auto& node : nodes)
        node.wait_for_line("still in round 0");
    daemon.process.signal(SIGCONT);

    dir.write("go", "");
    for (auto& node : nodes) {
        CHECK(node.wait_for_code() == 0);
        CHECK_FALSE(contains(node.err(), "round.stopped"));
    }
    daemon.process.signal(SIGTERM);
    CHECK(daemon.process.wait_for_code() == 0);
    CHECK(no_descendants_left());
}
