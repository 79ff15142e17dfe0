// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

TEST_CASE("two nodes join, a worker fails, all restart, and both succeed") {
    Story job{"2"};

    job.join("a");
    CHECK(
        job.output() == Lines{
                            "a welcome incarnation=61000000 lease=30s",
                            "forming: waiting for 1 node (1 of 2 ready)"});
    job.join("b");
    CHECK(
        job.output() ==
        Lines{
            "b welcome incarnation=61000000 lease=30s",
            "running: round 0 complete: 2 nodes, 4 workers (max nodes reached)",
            "a assignment round=0 group_rank=0/2 rank_base=0 world_size=4 restarts=0 "
            "master=10.0.0.97:20097",
            "b assignment round=0 group_rank=1/2 rank_base=2 world_size=4 restarts=0 "
            "master=10.0.0.97:20097"});

    job.started("a b");
    job.failed("b");
    CHECK(
        job.output() ==
        Lines{
            "draining: rank 2 on b: exited with code 7",
            "a stop round=0 SIGTERM grace=30s \"rank 2 on b: exited with code 7\"",
            "b stop round=0 SIGTERM grace=30s \"rank 2 on b: exited with code 7\""});

    job.ready("a");
    CHECK(job.output() == Lines{});
    job.ready("b");
    CHECK(
        job.output() ==
        Lines{
            "forming: restart 1 of 3: rank 2 on b: exited with code 7",
            "running: round 1 complete: 2 nodes, 4 workers (max nodes reached)",
            "a assignment round=1 group_rank=0/2 rank_base=0 world_size=4 restarts=1 "
            "master=10.0.0.97:21097",
            "b assignment round=1 group_rank=1/2 rank_base=2 world_size=4 restarts=1 "
            "master=10.0.0.97:21097"});

    job.started("a b", 1);
    job.succeeded("a", 1);
    CHECK(job.output() == Lines{});
    job.succeeded("b", 1);
    CHECK(
        job.output() == Lines{
                            "succeeded: every node succeeded",
                            "a result succeeded exit_code=0",
                            "b result succeeded exit_code=0"});
    CHECK_FALSE(job.coordinator().is_idle());
    job.drop("a");
    job.drop("b");
    CHECK(job.coordinator().is_idle());
}

TEST_CASE("every event of every kind of connection has its answer") {
    const auto answers = [](const std::function<void(Story&, ConnectionId)>& send) {
        Lines lines;
        for (const std::string kind : {"unknown", "silent", "member", "replaced", "refused"}) {
            Story job{"2"};
            job.join("a");
            ConnectionId id{99};
            if (kind == "silent")
                job.post(Coordinator::Connected{id, "10.0.0.9", "10.0.0.9:1", "10.0.0.1"});
            if (kind == "member" || kind == "replaced") id = job.connection("a");
            if (kind == "replaced") job.join("a");
            if (kind == "refused") {
                job.join("b", [](control::Join& join) { join.max_restarts = 99; });
                id = job.connection("b");
            }
            job.output();
            send(job, id);
            auto line = kind + ":";
            for (const auto& sent : job.output())
                line += " " + words(sent)[0] + " " + words(sent)[1];
            lines.push_back(line);
        }
        return lines;
    };
    const auto received = [&](const control::AgentMessage& message) {
        return answers([&](Story& job, ConnectionId id) {
            job.post(Coordinator::Received{id, message});
        });
    };
    const Lines refused_at_once{
        "unknown:", "silent: ? error ? closed:", "member:", "replaced:", "refused:"};
    control::Join join;
    join.run_id = "elsewhere";
    join.socket_addr = "10.0.0.9:1";
    join.store_port = 20'000;
    control::Resume resume;
    resume.join = join;

    CHECK(
        received(join) == Lines{
                              "unknown:",
                              "silent: ? welcome running: round ? assignment",
                              "member: a error a closed: forming: waiting",
                              "replaced:",
                              "refused:"});
    CHECK(
        received(resume) == Lines{
                                "unknown:",
                                "silent: ? resumed ? standby recovering: the",
                                "member: a error a closed: forming: waiting",
                                "replaced:",
                                "refused:"});
    for (const control::AgentMessage& message : std::vector<control::AgentMessage>{
             control::Ready{0, 20'000, 1},
             control::Started{},
             control::Succeeded{},
             control::Failed{},
             control::Heartbeat{},
             control::NeighbourHeard{}})
        CHECK(received(message) == refused_at_once);
    CHECK(
        received(control::Leave{"", 15}) == Lines{
                                                "unknown:",
                                                "silent: ? error ? closed:",
                                                "member: forming: node cancelled: every a result",
                                                "replaced:",
                                                "refused:"});
    const Lines nothing{"unknown:", "silent:", "member:", "replaced:", "refused:"};
    CHECK(answers([](Story& job, ConnectionId id) {
              job.post(Coordinator::Disconnected{id});
          }) == Lines{"unknown:", "silent:", "member: forming: waiting", "replaced:", "refused:"});
    CHECK(answers([](Story& job, ConnectionId) {
              job.post(Coordinator::DeadlinePassed{});
          }) == nothing);
}
