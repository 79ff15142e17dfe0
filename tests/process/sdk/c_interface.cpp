// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/running.hpp"

#include <doctest/doctest.h>

using namespace ddprun::test;

TEST_CASE("worker: every function of the C interface does what the header says, alone") {
    auto alone = Running(stub("c_worker"));
    const int code = alone.wait_for_code();
    CAPTURE(alone.err());
    CHECK(code == 0);
    CHECK(alone.out().find("rank 0 of 1, ddprun ") == 0);
}

TEST_CASE("worker: every function of the C interface does what the header says, between ranks") {
    Running job(
        program("ddprun"), {"--standalone", "--nproc-per-node=3", "--no-python", stub("c_worker")});
    const int code = job.wait_for_code();
    CAPTURE(job.err());
    CHECK(code == 0);
    for (const char* rank : {"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"})
        CHECK(job.out().find(rank) != std::string::npos);
}
