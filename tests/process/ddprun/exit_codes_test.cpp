// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <set>

using namespace ddprun::test;

namespace {

/// The number of concurrent jobs that a small machine can run without delaying any of them.
constexpr int batch_size = 8;

/// Checks that ddprun ends with the expected code for each of the numbers. Its worker is
/// `exit_with WORDS`.
void check_codes(
    const std::vector<int>& numbers,
    const std::vector<int>& expected,
    const std::function<Words(int number)>& words) {
    for (std::size_t begin = 0; begin < numbers.size(); begin += batch_size) {
        const auto end = std::min(begin + batch_size, numbers.size());
        std::vector<Running> jobs;
        jobs.reserve(batch_size);
        for (auto i = begin; i < end; ++i)
            jobs.emplace_back(
                program("ddprun"),
                Words{"--standalone", "--no-python", stub("exit_with")} + words(numbers[i]));
        for (auto i = begin; i < end; ++i) {
            auto& job = jobs[i - begin];
            const int code = job.wait_for_code();
            CAPTURE(numbers[i]);
            CAPTURE(job.err());
            CHECK(code == expected[i]);
        }
    }
}

/// Core files of workers that are meant to crash would be left in this folder.
void forbid_core_files() {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_cur = 0;
    REQUIRE(::setrlimit(RLIMIT_CORE, &limit) == 0);
}

}  // namespace

TEST_CASE("each of the 256 exit codes of a worker is ddprun's own") {
    std::vector<int> numbers;
    for (int code = 0; code < 256; ++code)
        numbers.push_back(code);

    check_codes(numbers, numbers, [](int code) { return Words{std::to_string(code)}; });
    CHECK(no_descendants_left());
}

TEST_CASE("each signal that ends a worker gives 128 and its number") {
    forbid_core_files();
    // Signals that do not end a process by default; SIGSTOP would stop it for ever.
    const std::set<int> harmless{SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU};
    std::vector<int> signals;
    std::vector<int> expected;
    for (int signal = 1; signal <= 64; ++signal) {
        if (signal == SIGSTOP) continue;
        signals.push_back(signal);
        // The stub's code when it has survived. A session without a terminal cannot be stopped.
        expected.push_back(harmless.contains(signal) ? 99 : 128 + signal);
    }

    check_codes(signals, expected, [](int signal) {
        return Words{"signal", std::to_string(signal)};
    });
    CHECK(no_descendants_left());
}

TEST_CASE(
    "exit codes are torchrun's where that was asked for: 1, and 2 for what its parser finds") {
    const auto code_of = [](const Words& words) {
        Running job{program("ddprun"), Words{"--compat=torchrun", "--standalone"} + words};
        return job.wait_for_code();
    };
    const Words worker{"--no-python", stub("exit_with")};

    CHECK(code_of(worker + Words{"0"}) == 0);
    CHECK(code_of(worker + Words{"7"}) == 1);
    CHECK(code_of(worker + Words{"2"}) == 1);
    CHECK(code_of(worker + Words{"signal", "9"}) == 1);
    CHECK(code_of({"--no-python", "/no/such/program"}) == 1);
    CHECK(code_of({"--nnodes=x", "script.py"}) == 1);
    CHECK(code_of({"--max-restarts=x", "script.py"}) == 2);
    CHECK(code_of({"--frobnicate", "script.py"}) == 2);
    CHECK(no_descendants_left());
}

TEST_CASE("called by a link named torchrun, ddprun behaves as with --compat=torchrun") {
    const TempDir dir;
    const auto link = dir.path() / "torchrun";
    std::filesystem::create_symlink(program("ddprun"), link);

    Running job{link.string(), {"--standalone", "--no-python", stub("exit_with"), "7"}};

    CHECK(job.wait_for_code() == 1);
    CHECK(job.err().find("FAILED") != std::string::npos);
    CHECK(no_descendants_left());
}

TEST_CASE("every node of a job ends with the root cause's code") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=3"});
    const std::string script = "if [ $RANK = 2 ]; then exit 85; fi\n" + wait_for_ever;

    auto a = start_job(dir, options, script);
    auto b = start_job(dir, options, script);
    auto c = start_job(dir, options, script);

    CHECK(a.wait_for_code() == 85);
    CHECK(b.wait_for_code() == 85);
    CHECK(c.wait_for_code() == 85);
    CHECK(no_descendants_left());
}
