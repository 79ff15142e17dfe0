// SPDX-License-Identifier: Apache-2.0
// What a worker reports to its launcher: why it ended, whether it noticed the stop, its progress.
#include "agent/report/error_file.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun::test;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif
#else
constexpr bool is_sanitized = false;
#endif

Running worker(std::vector<std::string> arguments, std::map<std::string, std::string> environment) {
    Running::Options options;
    options.arguments = std::move(arguments);
    options.environment = std::move(environment);
    return Running(stub("worker_life"), options);
}

struct End {
    int code;
    ddprun::agent::ErrorReport report;
};

/// Ends a worker in this way. Returns its exit code as a shell shows it, and its error file.
End end_of(const std::string& how) {
    const TempDir folder;
    const auto file = folder / "error.json";
    auto ending = worker({"end-badly", how}, {{"TORCHELASTIC_ERROR_FILE", file.string()}});
    End end{ending.wait_for_code(), {}};
    const auto text = read_file(file);
    CAPTURE(text);
    if (!text.empty()) {
        const auto report = ddprun::agent::parse_error_file(text);
        REQUIRE(report.has_value());
        end.report = *report;
        std::filesystem::remove(file);
    }
    CHECK(std::filesystem::is_empty(folder.path()));
    return end;
}

}  // namespace

TEST_CASE("worker: an exception that leaves main is in the error file, and the exit code is 1") {
    const auto end = end_of("throw");

    CHECK(end.code == 1);
    CHECK(end.report.message == "std::runtime_error: no data at \"/data\"\nneither here");
}

TEST_CASE("worker: a lost peer is marked as a secondary failure") {
    const auto end = end_of("throw-peer-lost");

    CHECK(end.code == 1);
    CHECK(end.report.message == "PeerLost: rank 3 is gone");
    CHECK(end.report.is_secondary);
}

TEST_CASE("worker: std::terminate leaves its exception and a call stack in the error file") {
    const auto end = end_of("throw-in-thread");

    CHECK(end.code == 128 + SIGABRT);
    CHECK(end.report.message == "std::logic_error: in a thread");
    CHECK(end.report.details.find("worker_life") != std::string::npos);
    CHECK(end_of("throw-number").report.message == "int: not a std::exception");
}

TEST_CASE("worker: a fatal signal is in the error file, and still ends the process") {
    // Sanitizers have their own handlers, which run after the SDK's and exit with a code.
    const auto by_signal = [](int number) { return is_sanitized ? 0 : 128 + number; };
    struct Row {
        const char* how;
        int code;
        const char* begins;
    };
    const Row rows[] = {
        {"segv", by_signal(SIGSEGV), "SIGSEGV: "},
        {"null", by_signal(SIGSEGV), "SIGSEGV: "},
        {"abort", by_signal(SIGABRT), "SIGABRT: "},
        {"overflow", by_signal(SIGSEGV), "SIGSEGV: "}};
    for (const auto& row : rows) {
        CAPTURE(row.how);
        // A sanitizer ends the process before it writes through a null pointer.
        if (is_sanitized && row.how == std::string_view{"null"}) continue;
        const auto end = end_of(row.how);
        if (!is_sanitized) CHECK(end.code == row.code);
        CHECK(end.code != 0);
        CHECK(end.report.message.rfind(row.begins, 0) == 0);
        CHECK(end.report.details.find("worker_life") != std::string::npos);
        // clang's sanitizer starts llvm-symbolizer, which ends a moment after the process.
        if (is_sanitized) CHECK(no_descendants_left());
    }
}

TEST_CASE("worker: a program's own exit code leaves no error file") {
    const auto end = end_of("exit");

    CHECK(end.code == 5);
    CHECK(end.report.message.empty());
}

TEST_CASE("worker: the launcher's report has what the worker recorded") {
    Running job(
        program("ddprun"),
        {"--standalone",
         "--nproc-per-node=1",
         "--no-python",
         stub("worker_life"),
         "end-badly",
         "throw"});

    CHECK(job.wait_for_code() == 1);
    CHECK(job.err().find("std::runtime_error: no data at") != std::string::npos);
}

TEST_CASE(
    "worker: a stop and its deadline are announced to the program, and its own handler is called") {
    auto training = worker({"stop"}, {{"DDPRUN_SHUTDOWN_TIMEOUT", "120"}});
    training.wait_for_line("training");

    training.signal(SIGTERM);

    CHECK(training.wait_for_code() == 0);
    CHECK(training.out().find("own handler\n") != std::string::npos);
    CHECK(training.out().find("stopping within 1") != std::string::npos);
}

TEST_CASE("worker: without a launcher a stop has no deadline, and Ctrl-C is no stop") {
    Running::Options options;
    options.arguments = {"stop"};
    auto stopped = Running(stub("worker_life"), options);
    stopped.wait_for_line("training");
    stopped.signal(SIGTERM);
    CHECK(stopped.wait_for_code() == 0);
    CHECK(stopped.out().find("stopping without a deadline\n") != std::string::npos);

    auto interrupted = Running(stub("worker_life"), options);
    interrupted.wait_for_line("training");
    interrupted.signal(SIGINT);
    CHECK(interrupted.wait_for_code() == 128 + SIGINT);
}

TEST_CASE("worker: ddprun passes its shutdown timeout to the workers") {
    Running job(
        program("ddprun"),
        {"--standalone",
         "--nproc-per-node=1",
         "--shutdown-timeout=77",
         "--no-python",
         stub("worker_life"),
         "stop"});
    job.wait_for_line("training");

    job.signal(SIGTERM);

    // Reduced by the time before the worker noticed the stop.
    job.wait_for_line("stopping within 7[2-7] s");
    job.wait_for_code();
}

TEST_CASE("worker: the progress can be read from outside") {
    auto training = worker({"report"}, {});
    training.wait_for_line("reported");

    int found = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(training.pid()) + "/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry, gone) != "/memfd:ddprun-progress (deleted)")
            continue;
        std::array<std::uint64_t, 3> page{};
        std::ifstream(entry.path(), std::ios::binary)
            .read(reinterpret_cast<char*>(page.data()), sizeof page);
        ++found;
        CHECK(std::memcmp(page.data(), "DDPPROG1", 8) == 0);
        CHECK(page[1] == 42);
        CHECK(page[2] > 0);
    }
    CHECK(found == 1);
}

namespace {

/// The output of read_calls.py for a folder.
std::string read_calls(const std::string& folder) {
    Running::Options options;
    options.arguments = {"python3", DDPRUN_READ_CALLS, folder};
    Running reader("/usr/bin/env", options);
    CHECK(reader.wait_for_code() == 0);
    return reader.out();
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "worker: the ranks of a failed group write their calls, and the reader names the difference") {
    const TempDir folder;
    Running::Options options;
    // A rank that gets SIGTERM can still write.
    options.environment = {{"SDK_WORKER_IGNORE_TERM", "1"}};
    options.arguments = {
        "--nproc-per-node=3",
        "--log-dir=" + folder.path().string(),
        "--no-python",
        stub("sdk_worker"),
        "other_order"};
    Running job(program("ddprun"), options);
    CHECK(job.wait_for_code() == 12);

    const auto text = read_calls(folder.path().string());

    CAPTURE(text);
    CHECK(has(text, "rank 2 failed with: "));
    CHECK(
        has(text,
            "ranks differ: ranks 0, 2: call 1: all_reduce (sum) of 1 float32; rank 1: call 1: "
            "barrier"));
}

TEST_CASE("worker: the reader of calls names the rank behind and messages without a peer") {
    const TempDir folder;
    const auto write = [&](int rank, const std::string& calls) {
        const auto place = folder.path() / ("rank-" + std::to_string(rank));
        std::filesystem::create_directories(place);
        std::ofstream(place / "calls.jsonl")
            << R"({"ddprun_calls": 1, "rank": )" << rank
            << R"(, "world_size": 4, "round": 0, "group": "g", "error": "e"})" << '\n'
            << calls;
    };
    const auto collective = [](int number, const std::string& state) {
        return R"({"queue": "collective", "number": )" + std::to_string(number) +
               R"(, "call": "call )" + std::to_string(number) + R"(: barrier", "state": ")" +
               state + R"(", "launched_ms": 1, "ended_ms": 0})" + "\n";
    };
    write(0, collective(1, "done") + collective(2, "running"));
    write(1, collective(1, "done"));
    write(
        2,
        collective(1, "done") + collective(2, "running") +
            R"({"queue": "send", "number": 1, "call": "message 1 from rank 2 to rank 0: 3 int32", )"
            R"("state": "running", "launched_ms": 1, "ended_ms": 0})"
            "\n");

    const auto text = read_calls(folder.path().string());

    CAPTURE(text);
    CHECK(has(text, "rank 3 wrote nothing"));
    CHECK(has(text, "rank 1 behind: last launched call 1: barrier; others are at call 2: barrier"));
    CHECK(has(text, "message 1 from rank 2 to rank 0: 3 int32: not received by its other end"));
    CHECK(!has(text, "ranks differ"));

    // A truncated line of a rank whose disk was full hides only that rank's trace.
    std::ofstream(folder.path() / "rank-1" / "calls.jsonl", std::ios::app)
        << "{\"queue\": \"coll\xff";
    const auto with_torn_line = read_calls(folder.path().string());
    CAPTURE(with_torn_line);
    CHECK(has(with_torn_line, "rank 1 behind: last launched call 1: barrier"));
}

namespace {

/// A job of three ranks on this machine.
Running job_of_three(const std::string& scenario) {
    Running::Options options;
    options.environment = {{"SDK_WORKER_IGNORE_TERM", "1"}};
    options.arguments = {"--nproc-per-node=3", "--no-python", stub("sdk_worker"), scenario};
    return Running(program("ddprun"), options);
}

}  // namespace

TEST_CASE("worker: a rank that dies before its group exists is named by the others at once") {
    auto job = job_of_three("dies_before_group");

    // They ignore SIGTERM, and the group's timeout is ten minutes.
    for (int survivor = 0; survivor < 2; ++survivor)
        job.wait_for_line("after .* ranks 1$");

    CHECK(job.wait_for_code() == 5);
    CHECK(no_descendants_left());
}

TEST_CASE("worker: a rank that dies before any other begins to create a group is named too") {
    auto job = job_of_three("dies_unasked");

    // They handle SIGTERM themselves, and the group's timeout is ten minutes.
    for (int survivor = 0; survivor < 2; ++survivor)
        job.wait_for_line("after .* ranks 1$");

    CHECK(job.wait_for_code() == 5);
    CHECK(no_descendants_left());
}

TEST_CASE("worker: the creation of a group ends when a stop is announced") {
    auto job = job_of_three("stopped_before_group");

    for (int rank = 0; rank < 3; ++rank)
        job.wait_for_line("ready");
    job.signal(SIGINT);

    for (int rank = 0; rank < 2; ++rank)
        job.wait_for_line("PeerLost: a stop was announced");

    job.signal(SIGINT);
    CHECK(job.wait_for_code() == 128 + SIGINT);
    CHECK(no_descendants_left());
}
