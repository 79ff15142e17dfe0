// SPDX-License-Identifier: Apache-2.0
// The nccl backend with a simulated GPU and NCCL (fake_gpu/).
#include "tests/process/sdk/fake_gpus.hpp"
#include "tests/process/sdk/workers.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

using ddprun::test::holds_within;

constexpr int killed = 128 + SIGKILL;

bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

int count_of(const std::string& part, const std::string& text) {
    int count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++count;
    return count;
}

std::string all_of(int code, int count) {
    std::string codes;
    for (int rank = 0; rank < count; ++rank)
        codes += (rank > 0 ? " " : "") + std::to_string(code);
    return codes;
}

/// Runs a scenario with a GPU for each rank, and expects success.
void run_on_gpus(int count, const std::string& scenario) {
    const FakeGpus gpus;
    Workers workers(count, {scenario}, gpus.variables({{"FAKE_GPU_COUNT", std::to_string(count)}}));
    const auto codes = workers.exit_codes();
    std::string outputs;
    for (int rank = 0; rank < count; ++rank)
        outputs += workers.output(rank);
    CAPTURE(outputs);
    CHECK(codes == all_of(0, count));
}

void check_said(const Workers& workers, const std::vector<int>& ranks, const std::string& words) {
    for (const int rank : ranks) {
        CAPTURE(workers.output(rank));
        CHECK(mentions(workers.output(rank), words));
    }
}

/// These ranks end with a timeout, except those that first notice the end of another rank. Returns
/// their output.
std::string said_at_timeout(Workers& workers, const std::vector<int>& ranks) {
    std::string said;
    bool has_timeout = false;
    for (const int rank : ranks) {
        const int code = workers.exit_code(rank);
        CAPTURE(workers.output(rank));
        CHECK((code == timed_out || code == peer_lost));
        has_timeout = has_timeout || code == timed_out;
        said += workers.output(rank);
    }
    CHECK(has_timeout);
    return said;
}

}  // namespace

TEST_CASE("nccl: every call of every type and operation is made through the right call of NCCL") {
    for (const int count : {1, 2, 3}) {
        const FakeGpus gpus;
        Workers workers(count, {"some_calls"}, gpus.variables());

        CHECK(workers.exit_codes() == all_of(0, count));
        CAPTURE(workers.output(0));
        CHECK(mentions(gpus.calls(), "ncclReduceScatter"));
    }
}

TEST_CASE("nccl: a sharded optimizer is refused, with the reason") {
    const FakeGpus gpus;
    Workers workers(2, {"sharded_on_gpu"}, gpus.variables());

    CHECK(workers.exit_codes() == all_of(misused, 2));
    check_said(workers, {0, 1}, "there are no kernels yet that update parameters there");
}

TEST_CASE("nccl: messages go both ways at once, each pair and direction by itself") {
    const FakeGpus gpus;
    Workers workers(3, {"messages"}, gpus.variables());

    CHECK(workers.exit_codes() == "0 0 0");
    CAPTURE(workers.output(0));
    CHECK(mentions(gpus.calls(), "ncclCommInitRank 1 of 2"));
}

TEST_CASE("nccl: sub-groups have communicators of their own") {
    const FakeGpus gpus;
    Workers workers(4, {"sub_groups"}, gpus.variables());

    const auto codes = workers.exit_codes();
    CAPTURE(workers.output(0));
    CHECK(codes == "0 0 0 0");
}

TEST_CASE("nccl: a split is NCCL's own, without another id") {
    for (const int count : {1, 2, 5}) {
        const FakeGpus gpus;
        Workers workers(count, {"splits"}, gpus.variables());

        const auto codes = workers.exit_codes();
        CAPTURE(workers.output(0));
        CHECK(codes == all_of(0, count));
        CHECK(mentions(gpus.calls(), "ncclCommSplit"));
        // With five ranks one has no color. It drops its communicator in each of the two splits.
        CHECK(count_of("ncclCommAbort", gpus.calls()) == (count == 5 ? 2 : 0));
    }
    const FakeGpus gpus;
    Workers workers(3, {"one_split"}, gpus.variables());

    CHECK(workers.exit_codes() == "0 0 0");
    CHECK(count_of("ncclGetUniqueId", gpus.calls()) == 1);
    CHECK(count_of("ncclCommDestroy", gpus.calls()) == 3 + 2);
    CHECK(count_of("ncclCommAbort", gpus.calls()) == 1);
}

TEST_CASE("nccl: a death during a split is a lost peer, also for a rank without a color") {
    for (const auto* notices : {"0", "1"}) {
        const FakeGpus gpus;
        Workers workers(
            3,
            {"one_split"},
            gpus.variables({{"FAKE_NCCL_SPLIT", "hangs"}, {"FAKE_NCCL_NOTICES_DEATHS", notices}}));
        REQUIRE(holds_within(60s, [&] { return count_of("ncclCommSplit", gpus.calls()) == 3; }));

        workers.kill(2, SIGKILL);

        CHECK(workers.exit_codes() == "10 10 137");
        check_said(workers, {0, 1}, "lost rank 2");
    }
}

TEST_CASE("nccl: a split that takes too long is a timeout") {
    const FakeGpus gpus;
    Workers workers(
        3,
        {"one_split"},
        gpus.variables({{"FAKE_NCCL_SPLIT", "hangs"}, {"SDK_WORKER_TIMEOUT_MS", "6000"}}));

    const auto said = said_at_timeout(workers, {0, 1, 2});
    CAPTURE(said);
    CHECK(mentions(said, "NCCL was not ready when the time was over"));
    CHECK(count_of("ncclCommSplit", gpus.calls()) == 3);
}

TEST_CASE("nccl: a split that fails ends the group and what was half made") {
    {
        const FakeGpus gpus;
        Workers workers(3, {"one_split"}, gpus.variables({{"FAKE_NCCL_SPLIT", "fails"}}));
        CHECK(workers.exit_codes() == all_of(peer_lost, 3));
        CHECK(count_of("ncclCommAbort", gpus.calls()) == 2 * 3);
    }
    const FakeGpus gpus;
    Workers workers(3, {"one_split"}, gpus.variables({{"SDK_WORKER_FAILS", ",,ncclCommSplit:3"}}));
    CHECK(workers.exit_codes() == "10 10 1");
    CAPTURE(workers.output(2));
    CHECK(mentions(workers.output(2), "ncclInternalError"));
}

TEST_CASE("nccl: many works in flight in GPU memory are done in order") {
    for (const auto* memory : {"", "none"}) {
        const FakeGpus gpus;
        Workers workers(2, {"pipelined"}, gpus.variables({{"FAKE_NCCL_MEMORY", memory}}));

        CHECK(workers.exit_codes() == "0 0");
        CAPTURE(workers.output(0));
        CHECK(mentions(gpus.calls(), "ncclMemAlloc"));
        CHECK(mentions(gpus.calls(), "ncclMemFree") == std::string{memory}.empty());
    }
}

TEST_CASE("nccl: a launched call is in the GPU's queue before any wait") {
    const FakeGpus gpus;
    Workers workers(3, {"gpu_in_flight"}, gpus.variables());
    workers.await_line("ready");

    // Not even the first call can complete: the third rank never makes the calls.
    CHECK(count_of("ncclAllReduce 100 ", gpus.calls()) == 2 * 3);
    workers.kill(2, SIGKILL);

    CHECK(workers.exit_codes() == "10 10 137");
    check_said(workers, {0, 1}, "lost rank 2");
}

TEST_CASE("nccl: a group without error is finalized and destroyed, not aborted") {
    const FakeGpus gpus;
    Workers workers(2, {"pipelined"}, gpus.variables());

    CHECK(workers.exit_codes() == "0 0");
    const auto calls = gpus.calls();
    CHECK(mentions(calls, "ncclCommFinalize"));
    CHECK(calls.rfind("ncclCommFinalize") < calls.rfind("ncclCommDestroy"));
    CHECK_FALSE(mentions(calls, "ncclCommAbort"));
}

TEST_CASE("nccl: a killed peer is reported to the others, though NCCL notices nothing") {
    const FakeGpus gpus;
    Workers workers(3, {"endless"}, gpus.variables());
    workers.await_line("ready");

    const auto before = std::chrono::steady_clock::now();
    workers.kill(1, SIGKILL);

    CHECK(workers.exit_codes() == "10 137 10");
    // Measured: a third of a second. The group's timeout is ten minutes.
    CHECK(std::chrono::steady_clock::now() - before < 60s);
    check_said(workers, {0, 2}, "lost rank 1");
    CHECK(mentions(gpus.calls(), "ncclCommAbort"));
}

TEST_CASE("nccl: a death during any call, messages too, aborts all communicators together") {
    const FakeGpus gpus;
    Workers workers(3, {"endless_mix"}, gpus.variables());
    workers.await_line("ready");

    workers.kill(0, SIGKILL);

    CHECK(workers.exit_codes() == "137 10 10");
    check_said(workers, {1, 2}, "lost rank 0");
}

TEST_CASE("nccl: a collective begins after the work already in the stream") {
    run_on_gpus(3, "gpu_after_stream");
}

TEST_CASE("nccl: a collective does not wait for work enqueued after its launch") {
    run_on_gpus(2, "gpu_before_later_work");
}

TEST_CASE("nccl: a stream waits for a collective, and the host does not") {
    run_on_gpus(3, "gpu_wait_in");
}

TEST_CASE("nccl: hundreds of collectives that only a stream waits for") {
    run_on_gpus(2, "gpu_wait_in_many");
}

TEST_CASE("nccl: a loss in a collective that only a stream waits for is the next call's error") {
    const FakeGpus gpus;
    Workers workers(3, {"gpu_lost_in_stream"}, gpus.variables({{"FAKE_GPU_COUNT", "3"}}));
    workers.await_line("ready");
    workers.kill(2, SIGKILL);

    CHECK(workers.exit_codes() == "10 10 137");
    check_said(workers, {0, 1}, "lost rank 2");
}

TEST_CASE("nccl: a message is waited for by the host, and a captured stream is refused") {
    const FakeGpus gpus;
    Workers workers(2, {"gpu_wait_in_refused"}, gpus.variables({{"FAKE_GPU_COUNT", "2"}}));

    CHECK(workers.exit_codes() == "0 0");
    check_said(workers, {0, 1}, "a stream that is being captured into a CUDA graph cannot wait");
}

TEST_CASE("nccl: memory is freed when the device is done with it") {
    const FakeGpus gpus;
    Workers workers(1, {"gpu_given_back_in_use"}, gpus.variables());

    CHECK(workers.exit_codes() == "0");
    CAPTURE(workers.output(0));
}

TEST_CASE(
    "nccl: a lost call's buffers are free when its wait is over, with work pending before it") {
    const FakeGpus gpus;
    Workers workers(3, {"gpu_lost_behind_own_work"}, gpus.variables({{"FAKE_GPU_COUNT", "3"}}));
    workers.await_line("ready");

    workers.kill(2, SIGKILL);

    CHECK(workers.exit_codes() == "0 0 137");
    CAPTURE(workers.output(0));
    CAPTURE(workers.output(1));
}

TEST_CASE("nccl: the store reports a death to a rank that waits on another host") {
    const FakeGpus gpus;
    Workers workers(3, {"last_one_idle"}, gpus.variables({{"SDK_WORKER_HOSTS", "a,b,b"}}));
    workers.await_line("ready");

    workers.kill(2, SIGKILL);

    CHECK(workers.exit_codes() == "10 10 137");
    CHECK(mentions(workers.output(0), "lost rank 2"));
    CHECK(mentions(workers.output(1), "lost rank 2"));
}

TEST_CASE("nccl: an error that NCCL reports is a lost peer, with NCCL's text") {
    const FakeGpus gpus;
    Workers workers(2, {"endless"}, gpus.variables({{"FAKE_NCCL_ERROR_AT", "5"}}));

    CHECK(workers.exit_codes() == all_of(peer_lost, 2));
    const auto both = workers.output(0) + workers.output(1);
    CAPTURE(both);
    // A late rank may find that the other one has left because of this error.
    CHECK(mentions(both, "ncclRemoteError"));
}

TEST_CASE("nccl: at a limit of processes a group ends as it does with threads") {
    {
        const FakeGpus gpus;
        Workers workers(
            2,
            {"endless"},
            gpus.variables({{"FAKE_NCCL_ERROR_AT", "5"}, {"SDK_WORKER_THREADS", "refused"}}));
        CHECK(workers.exit_codes() == all_of(peer_lost, 2));
        CHECK(mentions(workers.output(0) + workers.output(1), "ncclRemoteError"));
        CHECK(mentions(gpus.calls(), "ncclCommAbort"));
    }
    {
        // NCCL itself notices nothing.
        const FakeGpus gpus;
        Workers workers(3, {"endless"}, gpus.variables({{"SDK_WORKER_THREADS", "refused"}}));
        workers.await_line("ready");
        workers.kill(1, SIGKILL);
        CHECK(workers.exit_codes() == "10 137 10");
        check_said(workers, {0, 2}, "lost rank 1");
    }
    const FakeGpus gpus;
    Workers workers(2, {"pipelined"}, gpus.variables({{"SDK_WORKER_THREADS", "refused"}}));
    CHECK(workers.exit_codes() == "0 0");
    CHECK(mentions(gpus.calls(), "ncclCommDestroy"));
    CHECK_FALSE(mentions(gpus.calls(), "ncclCommAbort"));
}

TEST_CASE("nccl: a deadline of the program's aborts the group, also on the peer") {
    const FakeGpus gpus;
    Workers workers(2, {"late_and_dead"}, gpus.variables());

    CHECK(workers.exit_code(0) == timed_out);
    CAPTURE(workers.output(0));
    CHECK(mentions(workers.output(0), "again"));
}

TEST_CASE("nccl: a stopped rank is named by the timeout") {
    const FakeGpus gpus;
    Workers workers(3, {"endless"}, gpus.variables({{"SDK_WORKER_TIMEOUT_MS", "5000"}}));
    workers.await_line("ready");

    workers.kill(1, SIGSTOP);

    const auto said = said_at_timeout(workers, {0, 2});
    CAPTURE(said);
    // If it stopped while it was sending, one of the others is a call behind and is named too.
    const std::string words = "not done within the group's timeout; nothing was heard of rank";
    const auto at = said.find(words);
    REQUIRE(at != std::string::npos);
    const auto named = said.substr(at + words.size(), said.find('\n', at) - at - words.size());
    CHECK(mentions(named, "1"));
}

TEST_CASE("nccl: a communicator that never becomes ready is a timeout while joining") {
    const FakeGpus gpus;
    Workers workers(
        2,
        {"endless"},
        gpus.variables({{"FAKE_NCCL_INIT", "hangs"}, {"SDK_WORKER_TIMEOUT_MS", "5000"}}));

    const auto said = said_at_timeout(workers, {0, 1});
    CAPTURE(said);
    CHECK(mentions(said, "rank 0 could not meet its peers over NCCL"));
    CHECK(mentions(said, "NCCL was not ready when the time was over"));
    CHECK(mentions(gpus.calls(), "ncclCommAbort"));
}

TEST_CASE("nccl: a peer that never joins is a timeout that names it") {
    const FakeGpus gpus;
    Workers workers(2, {"killed_while_joining"}, gpus.variables());
    workers.await_line("ready");

    CHECK(workers.exit_code(1) == timed_out);
    CAPTURE(workers.output(1));
    workers.kill(0, SIGKILL);
    CHECK(workers.exit_code(0) == killed);
}

TEST_CASE("nccl: different versions of NCCL are an error on all ranks, before they connect") {
    const FakeGpus gpus;
    Workers workers(
        3, {"endless"}, gpus.variables({{"SDK_WORKER_NCCL_VERSIONS", "22809,22809,23002"}}));

    CHECK(workers.exit_codes() == all_of(mismatched, 3));
    for (int rank = 0; rank < 3; ++rank) {
        CAPTURE(workers.output(rank));
        CHECK(mentions(workers.output(rank), "rank 2 has NCCL 2.30.2, but rank 0 has NCCL 2.28.9"));
    }
}

TEST_CASE("nccl: an abort that never returns ends the process with a reason") {
    const FakeGpus gpus;
    Workers workers(
        2,
        {"endless"},
        gpus.variables({{"FAKE_NCCL_ABORT", "hangs"}, {"FAKE_NCCL_ERROR_AT", "5"}}));

    CHECK(workers.exit_codes() == "1 1");
    CAPTURE(workers.output(0));
    CHECK(mentions(workers.output(0), "NCCL's abort did not return within 5 s"));
}

TEST_CASE("nccl: several ranks on one GPU are an error that names --share-gpu") {
    const FakeGpus gpus;
    Workers workers(2, {"endless"}, gpus.variables({{"FAKE_NCCL_DUPLICATE_GPU", "1"}}));

    CHECK(workers.exit_codes() == all_of(1, 2));
    CHECK(mentions(workers.output(0), "--share-gpu"));
}

TEST_CASE("nccl: more ranks than GPUs are an error with both numbers") {
    const FakeGpus gpus;
    Workers workers(3, {"endless"}, gpus.variables({{"FAKE_GPU_COUNT", "2"}}));

    CHECK(workers.exit_codes() == "10 10 13");
    CAPTURE(workers.output(2));
    CHECK(mentions(workers.output(2), "3 ranks on this node and 2 GPUs"));
}

TEST_CASE("nccl: what makes the backend unusable is named, a missing library with its places") {
    const FakeGpus gpus;
    {
        Workers without_driver(1, {"endless"}, gpus.variables({{"LD_LIBRARY_PATH", ""}}));
        // Where a driver is installed this rank would succeed.
        if (!std::filesystem::exists("/dev/nvidiactl")) {
            CHECK(without_driver.exit_code(0) == misused);
            CHECK(mentions(without_driver.output(0), "libcuda.so.1"));
        }
    }
    {
        Workers without_gpu(1, {"endless"}, gpus.variables({{"FAKE_GPU_COUNT", "0"}}));
        CHECK(without_gpu.exit_code(0) == misused);
        CHECK(mentions(without_gpu.output(0), "no CUDA-capable device is detected"));
    }
    {
        Workers without_nccl(
            1, {"endless"}, gpus.variables({{"DDPRUN_NCCL", "/nowhere/libnccl.so"}}));
        CHECK(without_nccl.exit_code(0) == misused);
        CHECK(mentions(without_nccl.output(0), "/nowhere/libnccl.so"));
        CHECK(mentions(without_nccl.output(0), "nvidia-nccl-cu13"));
    }
    {
        Workers too_old(1, {"endless"}, gpus.variables({{"FAKE_NCCL_VERSION", "21602"}}));
        CHECK(too_old.exit_code(0) == misused);
        CHECK(mentions(too_old.output(0), "is version 2.16.2"));
    }
    {
        Workers blocking(1, {"endless"}, gpus.variables({{"NCCL_COMM_BLOCKING", "1"}}));
        CHECK(blocking.exit_code(0) == misused);
        CHECK(mentions(blocking.output(0), "NCCL_COMM_BLOCKING=1 makes NCCL wait for ever"));
    }
}

TEST_CASE("nccl: reductions of 8-bit floats are refused where NCCL does not have them") {
    const FakeGpus gpus;
    Workers workers(
        2, {"gpu_float8_of_old_nccl"}, gpus.variables({{"FAKE_NCCL_VERSION", "22304"}}));

    CHECK(workers.exit_codes() == all_of(0, 2));
    CHECK(mentions(
        workers.output(0),
        "all_reduce (sum) of 100 float8_e4m3: NCCL reduces 8-bit floats from 2.24 on"));
}

TEST_CASE("nccl: a peer whose death NCCL notices first is named as well") {
    const FakeGpus gpus;
    Workers workers(3, {"endless"}, gpus.variables({{"FAKE_NCCL_NOTICES_DEATHS", "1"}}));
    workers.await_line("ready");

    workers.kill(1, SIGKILL);

    CHECK(workers.exit_codes() == "10 137 10");
    check_said(workers, {0, 2}, "lost rank 1");
}

TEST_CASE("nccl: any call that fails with any result is reported, and both ranks end") {
    struct Failure {
        std::string call;
        int result;
        std::string name;
    };
    std::vector<Failure> failures;
    for (const auto* call :
         {"ncclCommInitRank",
          "ncclCommGetAsyncError",
          "ncclAllReduce",
          "ncclReduce",
          "ncclBroadcast",
          "ncclAllGather",
          "ncclReduceScatter",
          "ncclGroupStart",
          "ncclGroupEnd",
          "ncclSend",
          "ncclRecv"})
        failures.push_back({call, 1, "ncclUnhandledCudaError"});
    failures.push_back({"ncclAllReduce", 2, "ncclSystemError"});
    failures.push_back({"ncclAllReduce", 3, "ncclInternalError"});
    failures.push_back({"ncclAllReduce", 4, "ncclInvalidArgument"});
    failures.push_back({"ncclAllReduce", 5, "ncclInvalidUsage"});
    failures.push_back({"ncclAllReduce", 99, "a result of a newer NCCL"});
    failures.push_back({"ncclCommGetAsyncError", 4, "ncclInvalidArgument"});

    for (const auto& [call, result, name] : failures) {
        const FakeGpus gpus;
        const auto failure = call + ":" + std::to_string(result);
        Workers workers(2, {"few_calls"}, gpus.variables({{"FAKE_NCCL_FAIL", failure}}));

        CAPTURE(failure);
        const auto codes = workers.exit_codes();
        CAPTURE(workers.output(0));
        CAPTURE(workers.output(1));
        // The second rank may have seen the end of the first one before its own failure.
        CHECK((codes == "1 1" || codes == "1 10" || codes == "10 1"));
        CHECK(mentions(workers.output(0) + workers.output(1), name));
    }
}

TEST_CASE("nccl: an error that means a lost peer is PeerLost, in any call") {
    for (const std::string call : {"ncclCommInitRank", "ncclCommGetAsyncError", "ncclAllReduce"}) {
        const FakeGpus gpus;
        Workers workers(2, {"few_calls"}, gpus.variables({{"FAKE_NCCL_FAIL", call + ":6"}}));

        CAPTURE(call);
        CHECK(workers.exit_codes() == all_of(peer_lost, 2));
        CAPTURE(workers.output(0));
        CHECK(mentions(workers.output(0) + workers.output(1), "ncclRemoteError"));
    }
}

TEST_CASE("nccl: an id that cannot be made ends the rank that makes it, and the others lose it") {
    const FakeGpus gpus;
    Workers workers(2, {"few_calls"}, gpus.variables({{"FAKE_NCCL_FAIL", "ncclGetUniqueId:2"}}));

    CHECK(workers.exit_codes() == "1 10");
    CHECK(mentions(workers.output(0), "NCCL cannot make an id"));
    CHECK(mentions(workers.output(1), "lost rank 0"));
}

TEST_CASE("nccl: a failed finalize or destroy does not affect what was done") {
    for (const auto* call : {"ncclCommFinalize", "ncclCommDestroy"})
        for (const auto* result : {":1", ":6"}) {
            const FakeGpus gpus;
            const auto failure = std::string{call} + result;
            Workers workers(2, {"pipelined"}, gpus.variables({{"FAKE_NCCL_FAIL", failure}}));

            CAPTURE(failure);
            CHECK(workers.exit_codes() == "0 0");
            // A half destroyed communicator must not be aborted.
            const bool is_abort = mentions(gpus.calls(), "ncclCommAbort");
            CHECK(is_abort == (call == std::string{"ncclCommFinalize"}));
        }
}

TEST_CASE("nccl: communicators created in different orders are finalized without an abort") {
    const FakeGpus gpus;
    Workers workers(3, {"messages"}, gpus.variables());

    CHECK(workers.exit_codes() == "0 0 0");
    const auto calls = gpus.calls();
    CHECK(mentions(calls, "ncclCommFinalize"));
    CHECK_FALSE(mentions(calls, "ncclCommAbort"));
}

TEST_CASE("nccl: any call that never returns ends the process") {
    const FakeGpus gpus;
    std::map<std::string, std::unique_ptr<Workers>> stuck;  // all at once: each takes 20 s
    for (const auto* call :
         {"ncclCommInitRank",
          "ncclCommGetAsyncError",
          "ncclAllReduce",
          "ncclGroupEnd",
          "ncclCommFinalize",
          "ncclCommDestroy",
          "ncclMemAlloc",
          "ncclMemFree"})
        stuck[call] = std::make_unique<Workers>(
            1,
            std::vector<std::string>{"few_calls"},
            gpus.variables({{"FAKE_NCCL_STUCK", call}, {"SDK_WORKER_TIMEOUT_MS", "5000"}}));

    for (auto& it : stuck) {
        auto& workers = it.second;  // clang 14 lets no lambda name a structured binding
        CAPTURE(it.first);
        CHECK(workers->exit_code(0) == 1);
        CAPTURE(workers->output(0));
        CHECK(mentions(workers->output(0), "this process ends so that the launcher can start"));
    }
}
