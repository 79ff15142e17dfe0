// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/workers.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using namespace ddprun::tests;
using ddprun::test::TempDir;

namespace {

/// Runs a scenario at this world size and expects success.
void run(int count, const std::string& scenario, const Workers::Variables& variables = {}) {
    CAPTURE(count);
    CAPTURE(scenario);
    Workers workers(count, {scenario}, variables);
    for (int rank = 0; rank < count; ++rank) {
        const int code = workers.exit_code(rank);
        CAPTURE(workers.output(rank));
        CHECK(code == 0);
    }
}

std::string digest_of(Workers& workers, int rank) {
    CHECK(workers.exit_code(rank) == 0);
    return workers.output(rank);
}

}  // namespace

TEST_CASE("sdk: collectives give the right numbers at every small world size") {
    for (const int count : {1, 2, 3, 4})
        run(count, "collectives");
}

TEST_CASE("sdk: every call, type and operation gives the expected bytes") {
    run(1, "every_call");
    run(2, "every_call");
    run(3, "some_calls");
    run(7, "few_calls");
}

TEST_CASE("sdk: without shared memory every call gives the same bytes") {
    run(2, "every_call", {{"SDK_WORKER_HOSTS", "a,b"}});
    run(3, "some_calls", {{"SDK_WORKER_HOSTS", "a,b,c"}});
    run(7, "few_calls", {{"SDK_WORKER_HOSTS", "a,b,c,d,e,f,g"}});
}

TEST_CASE("sdk: a NaN on one rank is a NaN on all, in every operation") {
    run(2, "one_nan");
    run(3, "one_nan", {{"SDK_WORKER_HOSTS", "a,a,b"}});
    run(3, "one_nan", {{"SDK_WORKER_HOSTS", "a,b,c"}});
}

TEST_CASE("sdk: messages of all ranks to all others arrive, however large") {
    for (const int count : {2, 3, 5})
        run(count, "messages");
}

TEST_CASE("sdk: some ranks of a group can form a sub-group") {
    for (const int count : {2, 5})
        run(count, "sub_groups");
}

TEST_CASE("sdk: a group can be split by colors, and its parts again") {
    for (const int count : {1, 2, 5})
        run(count, "splits");
}

TEST_CASE("sdk: collectives in flight at the same time all complete") {
    for (const int count : {1, 2, 3})
        run(count, "pipelined");
}

#ifdef DDPRUN_PROFILER
TEST_CASE("sdk: a profiler sees each call from its launch to its end") {
    const TempDir folder;
    const auto seen = folder / "seen";
    run(2,
        "pipelined",
        {{"NVTX_INJECTION64_PATH", DDPRUN_PROFILER}, {"PROFILER_FILE", seen.string()}});

    const auto text = ddprun::test::read_file(seen);
    CAPTURE(text);
    const auto count_of = [&](const std::string& line) {
        std::size_t count = 0;
        for (auto at = text.find(line); at != std::string::npos; at = text.find(line, at + 1))
            ++count;
        return count;
    };
    CHECK(count_of("domain ddprun\n") == 2);
    CHECK(count_of("begin call 8: all_reduce (sum) of 50000 float32\n") == 2);
    CHECK(count_of("begin ") == 16);
    CHECK(count_of("end\n") == 16);
}
#endif

TEST_CASE("sdk: several groups of one world do not disturb each other") {
    run(3, "several_groups");
}

TEST_CASE("sdk: a reducer averages gradients over real processes, with and without no_sync") {
    for (const int count : {1, 2, 3, 4})
        run(count, "reducer");
}

TEST_CASE("sdk: results are the same bits on all ranks and in every run") {
    for (const int count : {2, 3, 4}) {
        Workers first(count, {"digest"});
        const auto bits = digest_of(first, 0);
        for (int rank = 1; rank < count; ++rank)
            CHECK(digest_of(first, rank) == bits);
        Workers second(count, {"digest"});
        for (int rank = 0; rank < count; ++rank)
            CHECK(digest_of(second, rank) == bits);
    }
}

TEST_CASE("sdk: without a launcher a process is a world of one and prints that") {
    Workers alone(
        1,
        {"collectives"},
        {{"RANK", ""}, {"WORLD_SIZE", ""}, {"MASTER_ADDR", ""}, {"MASTER_PORT", ""}});

    CHECK(alone.exit_code(0) == 0);
    CHECK(
        alone.output(0) ==
        "ddprun: RANK is not set, so this process runs alone, as a world of one; to run several: "
        "ddprun --nproc-per-node=N PROGRAM\n");
}

TEST_CASE("sdk: a program that a rank starts inherits none of its connections") {
    run(3, "inherited_sockets");
}
