// SPDX-License-Identifier: Apache-2.0
// `ddprunctl drain` and `undrain`. All nodes are on this machine, so they are named by their group
// rank or the first digits of their nonce.
#include "tests/process/ddprun/ctl.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <string>

using namespace ddprun::test;

namespace {

const std::string teller = "echo world $WORLD_SIZE round $DDPRUN_ROUND\n" + wait_for_ever;

/// The node of this `ddprun` on its server's page.
Json shown_node(const std::string& run_id, const Running& node) {
    const auto page = Json::parse(ctl({"status", run_id, "--json"}).out);
    for (const auto& one : page["job"]["nodes"])
        if (one["pid"] == node.pid()) return one;
    return {};
}

/// A job whose first node has the server.
struct DrainedJob {
    std::string nnodes;
    TempDir dir = {};
    Rendezvous rendezvous = {};
    std::string id = fresh_id();

    Running node(const Words& more, const std::string& conf) const {
        const Words own{
            "--rdzv-id=" + id, "--nnodes=" + nnodes, "--rdzv-conf=last_call_timeout=2," + conf};
        return start_job(dir, rendezvous.options(own + more), teller);
    }
    Running first() const { return node({}, "is_host=1"); }
    Running other(const Words& more = {}) const { return node(more, "is_host=0"); }

    Json shown(const Running& node) const { return shown_node(id, node); }
    std::string group_rank(const Running& node) const { return shown(node)["group_rank"].dump(); }
    std::string short_nonce(const Running& node) const { return shown(node)["nonce"]; }
};

}  // namespace

TEST_CASE("a drained node of an elastic job exits with 85, and the others go on without it") {
    const DrainedJob job{"1:2"};
    const auto file = (job.dir / "report.json").string();
    auto a = job.first();
    auto b = job.other({"--report-file=" + file});
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");
    const auto rank = job.group_rank(b);

    Running drain{
        program("ddprunctl"), {"drain", job.id, rank, "--pid=" + std::to_string(a.pid())}};
    CHECK(drain.wait_for_code() == 1);
    CHECK(contains(drain.err(), "no node '" + job.id + "'; there are "));
    Running again{program("ddprunctl"), {"drain", job.id, rank}};
    const auto pid = std::to_string(again.pid());
    CHECK(again.wait_for_code() == 0);
    CHECK(contains(again.out(), " leaves; the job goes on with 1 node\n"));

    CHECK(b.wait_for_code() == 85);
    a.wait_for_line("world 1 round 1");
    const auto by = "drained by ddprunctl (user ";
    CHECK(contains(b.err(), "node.drained reason=\"" + std::string{by}));
    CHECK(contains(b.err(), "job was cancelled: " + std::string{by}));
    CHECK(contains(b.err(), ", pid " + pid + " on "));
    const auto report = Json::parse(read_file(file));
    CHECK(report["exit_code"] == 85);
    CHECK(report["outcome"] == "cancelled");
    CHECK(ctl({"stop", job.id}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(contains(a.err() + b.err(), "command.passed_on command=\"drain_nodes "));
    CHECK(no_descendants_left());
}

TEST_CASE("a spare takes the place of a drained node") {
    const DrainedJob job{"2+1"};
    auto a = job.first();
    auto b = job.other();
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");
    auto spare = job.other();
    spare.wait_for_line("node.stood_by");

    const auto drain = ctl({"drain", job.id, job.short_nonce(b)});
    CHECK(drain.code == 0);
    CHECK(contains(drain.out, "a node that stands by takes a free place"));

    CHECK(b.wait_for_code() == 85);
    a.wait_for_line("world 2 round 1");
    spare.wait_for_line("world 2 round 1");
    CHECK(ctl({"stop", job.id}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(spare.wait_for_code() == 143);
    CHECK(no_descendants_left());
}

TEST_CASE("a drain that the job cannot bear, or of an unknown node, is refused unless forced") {
    const DrainedJob job{"2"};
    auto a = job.first();
    auto b = job.other();
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");

    const auto unknown = ctl({"drain", job.id, "node99"});
    CHECK(unknown.code == 1);
    CHECK(contains(unknown.err, "no node 'node99'; there are "));
    CHECK(contains(unknown.err, job.short_nonce(b)));
    const auto too_few = ctl({"drain", job.id, job.short_nonce(b), "--json"});
    CHECK(too_few.code == 1);
    CHECK(Json::parse(too_few.out)["done"] == false);
    CHECK(contains(too_few.out, "1 node would be left, and the job needs at least 2"));
    const auto host = ctl({"drain", job.id, job.short_nonce(a)});
    CHECK(host.code == 1);
    CHECK(contains(host.err, "the rendezvous server is part of the ddprun of "));
    CHECK(is_running(job.id));

    // The server's node ends the job on every node, as after SIGTERM there.
    CHECK(ctl({"drain", job.id, job.short_nonce(a), "--force"}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(b.wait_for_code() == 143);
    CHECK(contains(b.err(), "drained by ddprunctl (user "));
    CHECK(no_descendants_left());
}

TEST_CASE("a new ddprun of a drained host stands by until the host is undrained") {
    const DrainedJob job{"1:2"};
    auto a = job.first();
    auto b = job.other();
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");
    const std::string host = job.shown(b)["host"];
    CHECK(ctl({"drain", job.id, job.short_nonce(b)}).code == 0);
    CHECK(b.wait_for_code() == 85);
    a.wait_for_line("world 1 round 1");

    auto c = job.other();
    c.wait_for_line("it stands by until 'ddprunctl undrain'");
    CHECK(job.shown(c)["state"] == "drained");
    CHECK(contains(ctl({"status", job.id}).out, "drained     " + host + ", drained by ddprunctl"));
    const auto none = ctl({"undrain", job.id, "node99"});
    CHECK(none.code == 1);
    CHECK(contains(none.err, "no drained host 'node99'; drained are " + host));

    const auto undrained = ctl({"undrain", job.id, host});
    CHECK(undrained.code == 0);
    CHECK(contains(undrained.out, "nodes of " + host + " may have a place"));
    a.wait_for_line("world 2 round 2");
    c.wait_for_line("world 2 round 2");
    CHECK(ctl({"stop", job.id}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(c.wait_for_code() == 143);
    CHECK(no_descendants_left());
}

TEST_CASE("a drained host stays drained when the daemon is killed and started again") {
    const TempDir dir;
    const auto id = fresh_id();
    const auto endpoint = "127.0.0.1:" + std::to_string(free_port());
    const Words daemon_options{"--host=127.0.0.1", "--port=" + endpoint.substr(10)};
    const auto start = [&] {
        return start_job(
            dir,
            {"--rdzv-backend=c10d",
             "--rdzv-endpoint=" + endpoint,
             "--rdzv-id=" + id,
             "--nnodes=1:2",
             "--rdzv-conf=last_call_timeout=2"},
            teller);
    };
    Running killed{program("ddprun-rendezvous"), daemon_options};
    killed.wait_for_line("listening");
    auto a = start();
    auto b = start();
    a.wait_for_line("world 2 round 0");
    b.wait_for_line("world 2 round 0");
    const std::string host = shown_node(id, b)["host"];
    CHECK(ctl({"drain", id, shown_node(id, b)["nonce"]}).code == 0);
    CHECK(b.wait_for_code() == 85);
    a.wait_for_line("world 1 round 1");

    ::kill(killed.pid(), SIGKILL);
    CHECK(killed.wait_for_code() == 128 + SIGKILL);
    a.wait_for_line("rendezvous.lost");
    Running daemon{program("ddprun-rendezvous"), daemon_options};
    daemon.wait_for_line("round 1 goes on");
    auto c = start();
    c.wait_for_line("it stands by until 'ddprunctl undrain'");
    CHECK(shown_node(id, c)["state"] == "drained");
    CHECK(contains(ctl({"status", id}).out, "drained     " + host + ", drained by ddprunctl"));

    CHECK(ctl({"undrain", id, host}).code == 0);
    c.wait_for_line("world 2 round 3");
    a.wait_for_line("world 2 round 3");
    CHECK(ctl({"stop", id}).code == 0);
    CHECK(a.wait_for_code() == 143);
    CHECK(c.wait_for_code() == 143);
    daemon.signal(SIGTERM);
    CHECK(daemon.wait_for_code() == 0);
    CHECK(no_descendants_left());
}
