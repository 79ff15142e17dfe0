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
        job.told() == Lines{
                          "a welcome incarnation=61000000 lease=30s",
                          "forming: waiting for 1 node (1 of 2 ready)"});
    job.join("b");
    CHECK(
        job.told() == Lines{
                          "b welcome incarnation=61000000 lease=30s",
                          "running: round 0 complete: 2 nodes, 4 workers (max nodes reached)",
                          "a assignment round=0 group_rank=0/2 rank_base=0 world_size=4 restarts=0 "
                          "master=10.0.0.97:20097",
                          "b assignment round=0 group_rank=1/2 rank_base=2 world_size=4 restarts=0 "
                          "master=10.0.0.97:20097"});

    job.started("a b");
    job.failed("b");
    CHECK(
        job.told() == Lines{
                          "draining: rank 2 on b: exited with code 7",
                          "a stop round=0 SIGTERM grace=30s \"rank 2 on b: exited with code 7\"",
                          "b stop round=0 SIGTERM grace=30s \"rank 2 on b: exited with code 7\""});

    job.ready("a");
    CHECK(job.told() == Lines{});
    job.ready("b");
    CHECK(
        job.told() == Lines{
                          "forming: restart 1 of 3: rank 2 on b: exited with code 7",
                          "running: round 1 complete: 2 nodes, 4 workers (max nodes reached)",
                          "a assignment round=1 group_rank=0/2 rank_base=0 world_size=4 restarts=1 "
                          "master=10.0.0.97:21097",
                          "b assignment round=1 group_rank=1/2 rank_base=2 world_size=4 restarts=1 "
                          "master=10.0.0.97:21097"});

    job.started("a b", 1);
    job.succeeded("a", 1);
    CHECK(job.told() == Lines{});
    job.succeeded("b", 1);
    CHECK(
        job.told() == Lines{
                          "succeeded: every node succeeded",
                          "a result succeeded exit_code=0",
                          "b result succeeded exit_code=0"});
    CHECK_FALSE(job.coordinator().is_idle());
    job.drop("a");
    job.drop("b");
    CHECK(job.coordinator().is_idle());
}
