// SPDX-License-Identifier: Apache-2.0
// A Reducer whose ranks, on simulated GPUs, are on two hosts.
#include "tests/process/sdk/fake_gpus.hpp"
#include "tests/process/sdk/workers.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <string>

using namespace ddprun::tests;

TEST_CASE("gpu: the store reports a death to a rank on another host that has enqueued steps") {
    for (const std::string scenario : {"gpu_endless_steps", "gpu_endless_replays"}) {
        const FakeGpus gpus;
        Workers workers(3, {scenario}, gpus.variables({{"SDK_WORKER_HOSTS", "a,b,b"}}));
        workers.await_line("ready");
        workers.kill(2, SIGKILL);

        CAPTURE(scenario);
        CHECK(workers.exit_codes() == "10 10 137");
        for (const int rank : {0, 1}) {
            CAPTURE(workers.output(rank));
            CHECK(workers.output(rank).find("lost rank 2") != std::string::npos);
            CHECK(workers.output(rank).find("committed ") != std::string::npos);
        }
    }
}
