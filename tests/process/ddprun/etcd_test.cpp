// SPDX-License-Identifier: Apache-2.0
// The server of the node that holds the job's key in etcd leads; no node is special.
#include "tests/process/ddprun/etcd.hpp"

#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun::test;
using std::chrono::seconds;

namespace {

/// A path to etcd for one node alone, which can be interrupted: then nothing passes and nothing is
/// closed.
class WayToEtcd {
public:
    WayToEtcd(const TempDir& dir, const Etcd& etcd)
        : process_(
              "/usr/bin/python3",
              Words{"-u", dir.write_script("way.py", program_text), endpoint_, etcd.client()}) {
        process_.wait_for_line("ready");
    }
    ~WayToEtcd() { process_.signal(SIGKILL); }
    WayToEtcd(const WayToEtcd&) = delete;
    WayToEtcd& operator=(const WayToEtcd&) = delete;

    const std::string& endpoint() const { return endpoint_; }
    void cut() const { process_.signal(SIGSTOP); }
    void heal() const { process_.signal(SIGCONT); }
    void end() {
        process_.signal(SIGKILL);
        process_.wait_for_exit();
    }

private:
    static constexpr const char* program_text = R"(import asyncio, sys
def split(endpoint):
    host, port = endpoint.rsplit(":", 1)
    return host, int(port)
async def carry(source, sink):
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass
    finally:
        sink.close()
async def serve(reader, writer):
    try:
        far_reader, far_writer = await asyncio.open_connection(*split(sys.argv[2]))
    except OSError:
        return writer.close()
    await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))
async def main():
    server = await asyncio.start_server(serve, *split(sys.argv[1]))
    print("ready")
    await server.serve_forever()
asyncio.run(main())
)";
    std::string endpoint_ = "127.0.0.1:" + std::to_string(free_port());
    Running process_;
};

}  // namespace

TEST_CASE("etcd: nodes find the one that leads, and the job leaves nothing in etcd") {
    if (const auto reason = why_no_etcd(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    // Twice: the second job of this id must be a new one.
    for (int job = 0; job < 2; ++job) {
        auto nodes = start_three(dir, etcd, {"--nnodes=3"});
        dir.write("go", "");
        for (auto& node : nodes)
            CHECK(node.wait_for_code() == 0);
        CHECK(::unlink((dir.path() / "go").c_str()) == 0);
    }
    etcd.end();
    CHECK(no_descendants_left());
}

TEST_CASE("etcd: the leader's node is killed, another one leads and the job goes on without it") {
    if (const auto reason = why_no_etcd(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    auto nodes = start_three(dir, etcd, {"--nnodes=2:3"});

    ::kill(agent_of(nodes[0]), SIGKILL);

    // Its key lives for the TTL; its ranks are given away one lease later.
    wait_until_others_go_on(nodes);
    dir.write("go", "");
    for (int i : {1, 2})
        CHECK(nodes[static_cast<std::size_t>(i)].wait_for_code() == 0);
    nodes[0].wait_for_exit();
    etcd.end();
    CHECK(no_descendants_left());
}

TEST_CASE("etcd: SIGTERM on the leader's node: another one leads at once, one node leaves") {
    if (const auto reason = why_no_etcd(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    auto nodes = start_three(dir, etcd, {"--nnodes=2:3"});

    nodes[0].signal(SIGTERM);

    for (int i : {1, 2}) {
        auto& node = nodes[static_cast<std::size_t>(i)];
        node.wait_for_line("up 2 in 1");
        node.wait_for_line("rendezvous.leader_changed .*epoch=2");
        node.wait_for_line("rendezvous.resumed");
    }
    CHECK(nodes[0].wait_for_code() != 0);
    dir.write("go", "");
    for (int i : {1, 2}) {
        auto& node = nodes[static_cast<std::size_t>(i)];
        node.wait_for_line("done in 1");
        CHECK(node.wait_for_code() == 0);
    }
    etcd.end();
    CHECK(no_descendants_left());
}

TEST_CASE("etcd: it is away for longer than its lease, and no worker notices") {
    if (const auto reason = why_no_etcd(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    auto nodes = start_three(dir, etcd, {"--nnodes=3"});

    SUBCASE("stopped, and continued") {
        etcd.stop();
        nodes[0].wait_for_line("rendezvous.stepped_down", seconds{30});
        etcd.go_on();
    }
    SUBCASE("killed, and started again") {
        etcd.kill();
        nodes[0].wait_for_line("rendezvous.stepped_down", seconds{30});
        etcd.start();
    }
    for (auto& node : nodes)
        node.wait_for_line("rendezvous.resumed", seconds{60});
    dir.write("go", "");
    for (auto& node : nodes) {
        node.wait_for_line("done in 0");
        CHECK(node.wait_for_code() == 0);
        CHECK_FALSE(contains(node.err(), "round.stopped"));
    }
    etcd.end();
    CHECK(no_descendants_left());
}

TEST_CASE("etcd: the leader's machine is frozen for longer than its lease, and wakes up") {
    if (const auto reason = why_no_etcd(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    auto nodes = start_three(dir, etcd, {"--nnodes=2:3"});
    const auto& frozen = nodes[0];
    // Keeper, agent and worker: no process of that node runs.
    const std::vector<int> pids{frozen.pid(), agent_of(frozen), nodes[0].wait_for_number("pid ")};

    for (const int pid : pids)
        ::kill(pid, SIGSTOP);
    wait_until_others_go_on(nodes);
    for (const int pid : pids)
        ::kill(pid, SIGCONT);

    // It no longer leads, and its worker ends. Either its keeper notices that the fence has passed
    // and ends the whole node, or its agent ends the worker and joins again, depending on which of
    // the two wakes first.
    CHECK(is_gone(pids.back()));
    dir.write("go", "");
    for (const int i : {1, 2}) {
        auto& node = nodes[static_cast<std::size_t>(i)];
        node.wait_for_line("done in [1-9]");
        CHECK(node.wait_for_code() == 0);
    }
    const bool is_ended = nodes[0].wait_for_code() != 0;
    const bool is_out_of_round = contains(nodes[0].err(), "round.stopped round=0");
    CHECK((is_ended || is_out_of_round));
    CHECK_FALSE(contains(nodes[0].out(), "done in 0"));
    etcd.end();
    CHECK(no_descendants_left());
}

TEST_CASE("etcd: the leader is cut off from etcd alone") {
    if (const auto reason = why_no_etcd(); !reason.empty()) return skip(reason);
    const TempDir dir;
    Etcd etcd;
    WayToEtcd way{dir, etcd};
    std::vector<Running> nodes;
    nodes.push_back(
        start_job(dir, Etcd::options_by(way.endpoint(), {"--nnodes=2:3"}), until_go(dir)));
    nodes[0].wait_for_line("rendezvous.leader_changed .*epoch=1");
    for (int i = 0; i < 2; ++i)
        nodes.push_back(start_job(dir, etcd.options({"--nnodes=2:3"}), until_go(dir)));
    for (auto& node : nodes)
        node.wait_for_line("up 3 in 0");

    way.cut();
    nodes[0].wait_for_line("rendezvous.stepped_down", seconds{30});
    for (const int i : {1, 2})
        nodes[static_cast<std::size_t>(i)].wait_for_line(
            "rendezvous.leader_changed .*epoch=2", seconds{60});
    SUBCASE("it finds the next one before its fence: no worker notices") {
        way.heal();
        for (auto& node : nodes)
            node.wait_for_line("rendezvous.resumed", seconds{60});
        dir.write("go", "");
        for (auto& node : nodes) {
            node.wait_for_line("done in 0");
            CHECK(node.wait_for_code() == 0);
            CHECK_FALSE(contains(node.err(), "round.stopped"));
        }
    }
    SUBCASE("it does not: it ends its workers, and only then the others go on without it") {
        nodes[0].wait_for_line("worker.exited .*round=0", seconds{60});
        for (const int i : {1, 2}) {
            auto& node = nodes[static_cast<std::size_t>(i)];
            node.wait_for_line("up 2 in", seconds{90});
        }
        way.heal();
        for (auto& node : nodes)
            node.wait_for_line("up 3 in [1-9]", seconds{90});
        dir.write("go", "");
        for (auto& node : nodes)
            CHECK(node.wait_for_code() == 0);
    }
    etcd.end();
    way.end();
    CHECK(no_descendants_left());
}

TEST_CASE("etcd: what answers instead is named") {
    const TempDir dir;
    const auto port = std::to_string(free_port());
    // Answers every POST with a page.
    Running server{"/usr/bin/python3", Words{"-u", "-m", "http.server", "--bind=127.0.0.1", port}};
    server.wait_for_line("Serving HTTP");
    auto node = start_job(
        dir,
        {"--nnodes=2",
         "--rdzv-backend=etcd-v2",
         "--rdzv-id=tested",
         "--rdzv-endpoint=127.0.0.1:" + port,
         "--rdzv-conf=join_timeout=3"},
        "true");
    CHECK(node.wait_for_code() == 81);
    CHECK(contains(node.err(), "etcd at 127.0.0.1:" + port + " answers: HTTP status 501"));
    server.signal(SIGKILL);
    server.wait_for_exit();
    CHECK(no_descendants_left());
}
