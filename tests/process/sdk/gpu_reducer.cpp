// SPDX-License-Identifier: Apache-2.0
// Reducer and Metrics on nccl groups, with a simulated GPU and NCCL (gpu_scenarios.cpp is what a
// rank does).
#include "tests/process/sdk/fake_gpus.hpp"
#include "tests/process/sdk/workers.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <chrono>
#include <string>

using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Runs a scenario that must succeed.
void expect_good(int count, const std::string& scenario, const Workers::Variables& variables = {}) {
    const FakeGpus gpus;
    Workers workers(count, {scenario}, gpus.variables(variables));

    CAPTURE(scenario);
    for (int rank = 0; rank < count; ++rank) {
        const int code = workers.exit_code(rank);
        CAPTURE(rank);
        CAPTURE(workers.output(rank));
        CHECK(code == 0);
    }
}

/// Whether `one` is in the calls, and `other` only after it.
bool is_before(const std::string& one, const std::string& other, const std::string& calls) {
    const auto at = calls.find(one);
    return at != std::string::npos && at < calls.find(other);
}

/// The call that averages a bucket of gradients: 33 floats come first, followed by a gap.
const std::string first_bucket = "ncclAllReduce 48 of type 7\n";

/// How many steps a rank had committed when it failed.
int committed(const std::string& output) {
    const auto at = output.find("committed ");
    return at == std::string::npos ? -1 : std::stoi(output.substr(at + 10));
}

/// The second of two ranks never completes a collective, so the first times out. Returns how many
/// steps the first had committed.
int steps_before_timeout(Workers& workers) {
    CHECK(workers.exit_code(0) == timed_out);
    CAPTURE(workers.output(0));
    CHECK(mentions(workers.output(0), "not done within the group's timeout"));
    workers.kill(1, SIGKILL);
    CHECK(workers.exit_code(1) == 128 + SIGKILL);
    return committed(workers.output(0));
}

}  // namespace

TEST_CASE("gpu: a reducer trains as it does on the CPU, with work pending in the stream") {
    for (const int count : {1, 2, 3})
        expect_good(count, "gpu_steps");
    expect_good(2, "gpu_steps", {{"FAKE_NCCL_MEMORY", "none"}});
}

TEST_CASE("gpu: the default stream and the program's own memory work") {
    expect_good(2, "gpu_default_stream");
}

TEST_CASE("gpu: compressed gradients are the CPU's, bit for bit") {
    for (const int count : {1, 2})
        expect_good(count, "gpu_compressed");
}

TEST_CASE("gpu: reorder, find_unused, uneven_inputs, check_order_every and hooks work") {
    expect_good(2, "gpu_options");
}

TEST_CASE("gpu: a rank without steps joins those of the others") {
    expect_good(3, "gpu_joined");
}

TEST_CASE("gpu: gradients add up under no_sync") {
    expect_good(2, "gpu_accumulated");
}

TEST_CASE("gpu: gradients are clipped on the device, and the norm is the CPU's") {
    expect_good(2, "gpu_clipped");
}

TEST_CASE("gpu: captured steps that are replayed are the same as steps one by one") {
    for (const int count : {1, 2, 3})
        expect_good(count, "gpu_captured");
    expect_good(2, "gpu_captured_compressed");
}

TEST_CASE("gpu: a peer that is done may end while this GPU is busy with the program's work") {
    expect_good(2, "gpu_peer_ends");
}

TEST_CASE("gpu: a call that cannot be captured is refused with a reason") {
    expect_good(2, "gpu_refused");
}

TEST_CASE("gpu: the host is at most four steps ahead") {
    expect_good(2, "gpu_ahead");
}

TEST_CASE("gpu: metrics are added up over the ranks") {
    for (const int count : {1, 3})
        expect_good(count, "gpu_metrics");
}

TEST_CASE("gpu: a rank with other parameters is named") {
    const FakeGpus gpus;
    Workers workers(2, {"gpu_different_parameters"}, gpus.variables());

    CHECK(workers.exit_codes() == "12 12");
    CAPTURE(workers.output(0));
    CHECK(mentions(workers.output(0), "parameter b on rank 1 differs from rank 0's"));
}

TEST_CASE("gpu: a rank with another model is named") {
    const FakeGpus gpus;
    Workers workers(2, {"gpu_different_models"}, gpus.variables());

    CHECK(workers.exit_codes() == "12 12");
    CAPTURE(workers.output(0));
    CHECK(mentions(workers.output(0), "rank 1: parameter 2 is another with 1 elements"));
}

TEST_CASE("gpu: gradients are registered with NCCL on all ranks or on none") {
    {
        const FakeGpus gpus;
        Workers workers(2, {"gpu_steps"}, gpus.variables());
        CHECK(workers.exit_codes() == "0 0");
        const auto calls = gpus.calls();
        CAPTURE(calls);
        CHECK(mentions(calls, "ncclCommRegister"));
        CHECK(mentions(calls, first_bucket));
        CHECK(!is_before("ncclCommDeregister", first_bucket, calls));
    }
    // The second rank's call fails.
    const FakeGpus gpus;
    Workers workers(
        2, {"gpu_steps"}, gpus.variables({{"SDK_WORKER_FAILS", ",ncclCommRegister:3"}}));
    CHECK(workers.exit_codes() == "0 0");
    const auto calls = gpus.calls();
    CAPTURE(calls);
    CHECK(mentions(calls, "ncclCommRegister"));
    CHECK(is_before("ncclCommDeregister", first_bucket, calls));
}

TEST_CASE("gpu: a graph that outlives its group is reported, and the program exits with 0") {
    const FakeGpus gpus;
    Workers workers(2, {"gpu_graph_outlives_group"}, gpus.variables());

    CHECK(workers.exit_codes() == "0 0");
    for (const int rank : {0, 1}) {
        CAPTURE(workers.output(rank));
        CHECK(mentions(workers.output(rank), "destroy graphs before the group"));
    }
}

TEST_CASE("gpu: an aborted collective's garbage reaches no survivor's parameters") {
    for (const std::string scenario :
         {"gpu_endless_steps", "gpu_endless_replays", "gpu_last_one_stops"}) {
        const FakeGpus gpus;
        Workers workers(3, {scenario}, gpus.variables());
        workers.await_line("ready");

        const auto before = std::chrono::steady_clock::now();
        workers.kill(2, SIGKILL);

        CAPTURE(scenario);
        CHECK(workers.exit_codes() == "10 10 137");
        // The group's timeout is ten minutes.
        CHECK(std::chrono::steady_clock::now() - before < 30s);
        for (const int rank : {0, 1}) {
            CAPTURE(workers.output(rank));
            CHECK(mentions(workers.output(rank), "lost rank 2"));
            CHECK(committed(workers.output(rank)) >= 0);
        }
        const int apart = committed(workers.output(0)) - committed(workers.output(1));
        CHECK((apart >= -1 && apart <= 1));
    }
}

TEST_CASE("gpu: an error that NCCL reports while the host is ahead keeps garbage out as well") {
    for (const std::string scenario : {"gpu_endless_steps", "gpu_endless_replays"}) {
        const FakeGpus gpus;
        Workers workers(2, {scenario}, gpus.variables({{"FAKE_NCCL_NOTICES_DEATHS", "1"}}));
        workers.await_line("ready");
        workers.kill(1, SIGKILL);

        CAPTURE(scenario);
        CHECK(workers.exit_codes() == "10 137");
        CAPTURE(workers.output(0));
        CHECK(mentions(workers.output(0), "lost rank 1"));
        CHECK(committed(workers.output(0)) >= 0);
    }
}

TEST_CASE("gpu: work of the program that outlasts an abort does not end the process") {
    const FakeGpus gpus;
    // The timeout of an abort is that of the group.
    Workers workers(
        2, {"gpu_own_work_goes_on"}, gpus.variables({{"SDK_WORKER_TIMEOUT_MS", "8000"}}));
    workers.await_line("ready");

    workers.kill(1, SIGKILL);

    CHECK(workers.exit_codes() == "10 137");
    CAPTURE(workers.output(0));
    CHECK(mentions(workers.output(0), "lost rank 1"));
    CHECK(committed(workers.output(0)) == 3);
}

TEST_CASE("gpu: a peer that is lost while the driver blocks the launch of a graph is named") {
    const FakeGpus gpus;
    Workers workers(2, {"gpu_lost_in_launch"}, gpus.variables({{"SDK_WORKER_TIMEOUT_MS", "8000"}}));
    workers.await_line("launching");

    workers.kill(1, SIGKILL);

    CHECK(workers.exit_codes() == "10 137");
    CAPTURE(workers.output(0));
    CHECK(mentions(workers.output(0), "lost rank 1"));
    CHECK(committed(workers.output(0)) == 3);
}

TEST_CASE("gpu: a device that fails while the host waits is an error with the driver's text") {
    const Workers::Variables third_step{{"FAKE_GPU_FAILS_IN", "ddprun_count_step:3"}};
    const std::string words =
        "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS 700)";
    {
        const FakeGpus gpus;
        Workers alone(1, {"gpu_device_fails"}, gpus.variables(third_step));
        CHECK(alone.exit_code(0) == 1);
        CAPTURE(alone.output(0));
        CHECK(mentions(alone.output(0), "cuda:0: " + words));
    }
    const FakeGpus gpus;
    Workers both(2, {"gpu_device_fails"}, gpus.variables(third_step));
    // The second rank may have seen the end of the first one before its own failure.
    const auto codes = both.exit_codes();
    const auto said = both.output(0) + both.output(1);
    CAPTURE(said);
    CHECK((codes == "1 1" || codes == "1 10" || codes == "10 1"));
    CHECK((mentions(said, "cuda:0: " + words) || mentions(said, "cuda:1: " + words)));
    CHECK(!mentions(said, "nothing was said"));
}

TEST_CASE("gpu: the next collective of the host throws a timeout that the watchdog found") {
    const Workers::Variables short_timeout{{"SDK_WORKER_TIMEOUT_MS", "8000"}};
    const FakeGpus some;
    const FakeGpus others;
    Workers metrics(2, {"gpu_metrics_after_watchdog"}, some.variables(short_timeout));
    Workers barrier(2, {"gpu_barrier_after_watchdog"}, others.variables(short_timeout));

    for (auto* workers : {&metrics, &barrier})
        CHECK(steps_before_timeout(*workers) == 3);
}

TEST_CASE("gpu: a stopped rank is a timeout, for a graph's steps too") {
    const Workers::Variables short_timeout{{"SDK_WORKER_TIMEOUT_MS", "8000"}};
    const FakeGpus some;
    const FakeGpus others;
    Workers steps(2, {"gpu_last_one_stops"}, some.variables(short_timeout));
    Workers replays(2, {"gpu_endless_replays"}, others.variables(short_timeout));
    steps.await_line("ready");
    replays.await_line("ready");
    replays.kill(1, SIGSTOP);

    for (auto* workers : {&steps, &replays})
        CHECK(steps_before_timeout(*workers) >= 0);
}
