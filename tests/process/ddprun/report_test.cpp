// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/memory_cgroup.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

using namespace ddprun::test;
using Json = nlohmann::json;

namespace {

const std::string write_error_file =
    "echo '{\"message\": {\"message\": \"ValueError: bad batch\", \"mark\": 5, \"extraInfo\": "
    "{\"py_callstack\": \"Traceback: line 3\", \"timestamp\": \"17\"}}}' "
    "> $TORCHELASTIC_ERROR_FILE\n";

/// The part before the host's own name and numbers is the same on every node.
std::string report_of(const std::string& screen) {
    const auto begin = screen.find("ddprun: job failed");
    return begin == std::string::npos ? "" : screen.substr(begin);
}

Words files_in(const std::filesystem::path& folder) {
    Words names;
    for (const auto& entry : std::filesystem::directory_iterator{folder})
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

/// Removes the line breaks in the report's own lines.
std::string unwrapped(const std::string& report) {
    return std::regex_replace(report, std::regex{"\\n +"}, " ");
}

}  // namespace

TEST_CASE("every node shows the same report") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto options = rendezvous.options({"--nnodes=2"});
    const std::string script =
        "if [ $RANK = 1 ]; then echo the end >&2; exit 7; fi\n" + wait_for_ever;

    auto a = start_job(dir, options, script);
    auto b = start_job(dir, options, script);
    CHECK(a.wait_for_code() == 7);
    CHECK(b.wait_for_code() == 7);

    for (const auto* job : {&a, &b}) {
        const auto report = report_of(job->err());
        CAPTURE(report);
        CHECK(contains(report, "ddprun: job failed: rank 1 on "));
        CHECK(contains(report, ": exited with code 7\n"));
        CHECK(contains(report, "\n  | the end\n"));
        CHECK(contains(report, "\n  exit code      7\n"));
    }
}

TEST_CASE("the headline is the exception, and each row says something new") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {},
        "echo 'Traceback (most recent call last):' >&2\n"
        "echo '  File \"t.py\", line 3, in f' >&2\n"
        "printf 'ValueError: bad \\033[31mbatch\\n' >&2\n"
        "exit 1");
    CHECK(job.wait_for_code() == 1);

    const auto report = report_of(job.err());
    CAPTURE(report);
    CHECK(contains(
        unwrapped(report).substr(0, report.find("root cause")), ": ValueError: bad ?[31mbatch"));
    CHECK(contains(report, "\n  how            exited with code 1\n"));
    CHECK_FALSE(contains(report, "\n  error "));
}

TEST_CASE("the report is a line of JSON where that was asked for") {
    const TempDir dir;
    auto job =
        one_node(dir, {"--report-format=json", "--rdzv-id=j"}, "echo bye >&2\nkill -SEGV $$");
    CHECK(job.wait_for_code() == 128 + SIGSEGV);

    const auto begin = job.err().find("{\"time\"");
    REQUIRE(begin != std::string::npos);
    const auto report = Json::parse(job.err().substr(begin));
    CHECK(report["outcome"] == "failed");
    CHECK(report["exit_code"] == 139);
    const auto& worker = report["root_cause"]["worker"];
    CHECK(worker["end"]["signal"] == "SIGSEGV");
    CHECK(worker["details"] == "bye\n");
    CHECK(worker["unix_time"] > 1'700'000'000);
}

TEST_CASE("the report is torchrun's table where that was asked for") {
    const TempDir dir;
    auto job = one_node(dir, {"--report-format=torchrun"}, write_error_file + "exit 3");
    CHECK(job.wait_for_code() == 3);

    CHECK(contains(job.err(), " FAILED\n-----"));
    CHECK(contains(job.err(), "Failures:\n  <NO_OTHER_FAILURES>\n"));
    CHECK(
        contains(job.err(), "Root Cause (first observed failure):\n[0]:\n  time      : 1970-01-0"));
    CHECK(contains(job.err(), "\n  rank      : 0 (local_rank: 0)\n  exitcode  : 3 (pid: "));
    CHECK(contains(job.err(), "\n  traceback : Traceback: line 3\n"));
}

TEST_CASE("the report's file is written for good and bad ends, and nothing is left beside it") {
    const TempDir dir;
    const TempDir reports;
    const auto path = (reports / "report.json").string();
    auto good = one_node(dir, {"--report-file=" + path}, "exit 0");
    CHECK(good.wait_for_code() == 0);
    CHECK(Json::parse(read_file(path))["outcome"] == "succeeded");

    auto bad = one_node(dir, {"--report-file=" + path, "--nproc-per-node=2"}, "exit 4");
    CHECK(bad.wait_for_code() == 4);
    const auto report = Json::parse(read_file(path));
    CHECK(report["exit_code"] == 4);
    CHECK(report["root_cause"]["kind"] == "worker_failed");
    CHECK(contains(bad.err(), "ddprun: job failed"));
    CHECK(files_in(reports.path()) == Words{"report.json"});
}

TEST_CASE("a report that goes into a link or a pipe leaves it what it is") {
    const TempDir dir;
    const TempDir reports;
    const auto target = (reports / "report.json").string();
    const auto link = reports / "link";
    std::filesystem::create_symlink(target, link);

    auto job = one_node(dir, {"--report-file=" + link.string()}, "exit 4");
    CHECK(job.wait_for_code() == 4);
    CHECK(std::filesystem::is_symlink(link));
    CHECK(Json::parse(read_file(target))["exit_code"] == 4);

    // A pipe as an example of a device; it has no reader, and ddprun does not wait for one.
    const auto pipe = reports / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    auto unread = one_node(dir, {"--report-file=" + pipe.string()}, "exit 4");
    CHECK(unread.wait_for_code() == 4);
    CHECK(std::filesystem::is_fifo(pipe));
    CHECK(contains(unread.err(), "report.not_written"));
    CHECK(files_in(reports.path()) == Words{"link", "pipe", "report.json"});
}

TEST_CASE("the report's file is of this job also when that ends before it begins") {
    const TempDir dir;
    const auto path = dir.write("report.json", "of an earlier job");
    const auto report_after = [&](const Words& words, int code) {
        Running job{program("ddprun"), Words{"--report-file=" + path} + words};
        CHECK(job.wait_for_code() == code);
        return Json::parse(read_file(path));
    };

    const auto missing = report_after({"--standalone", "--rdzv-id=j", "/no/such.py"}, 127);
    CHECK(missing["outcome"] == "failed");
    CHECK(missing["exit_code"] == 127);
    CHECK(missing["run_id"] == "j");
    CHECK(missing["program"] == "/no/such.py");
    CHECK(contains(missing["reason"].get<std::string>(), "/no/such.py"));

    CHECK(report_after({"--nnodes=x", "train.py"}, 2)["exit_code"] == 2);
    const auto misspelt = report_after({"--frobnicate", "train.py"}, 2);
    CHECK(contains(misspelt["reason"].get<std::string>(), "--frobnicate"));
}

TEST_CASE("a mistake on the command line is a line of JSON where lines are") {
    for (const Words& words :
         {Words{"--nnodes=x", "train.py"}, Words{"--frobnicate", "train.py"}}) {
        Running job{program("ddprun"), Words{"--log-format=json"} + words};
        CHECK(job.wait_for_code() == 2);

        const auto line = Json::parse(job.err());
        CHECK(line["event"] == "job.refused");
        CHECK(line["level"] == "error");
        CHECK(contains(line["reason"].get<std::string>(), words.front().substr(0, 8)));
        CHECK(line.contains("time"));
        CHECK(line.contains("message"));
    }
}

TEST_CASE("a report file that cannot be written is said and changes nothing else") {
    const TempDir dir;
    // A folder is made at the path while the job runs, so that no file can replace it.
    const auto path = (dir / "report.json").string();
    auto job = one_node(dir, {"--report-file=" + path}, "mkdir " + path + "\nexit 4");

    CHECK(job.wait_for_code() == 4);
    CHECK(contains(job.err(), "report.not_written"));
    CHECK(contains(job.err(), path));
}

TEST_CASE("the parent's error file gets the root cause with its exit code") {
    const TempDir dir;
    const auto script = dir.write_script(
        "fail",
        "#!/bin/sh\ntest $RANK = 0 || exec tail -f /dev/null\n" + write_error_file + "exit 3\n");
    Running::Options options;
    options.arguments = {"--standalone", "--nproc-per-node=2", "--no-python", script};
    options.environment["TORCHELASTIC_ERROR_FILE"] = (dir / "parent.json").string();
    // Existing content is replaced, as by torchrun.
    dir.write("parent.json", "old");
    Running job{program("ddprun"), options};

    CHECK(job.wait_for_code() == 3);
    CHECK(
        Json::parse(read_file(dir / "parent.json")) ==
        Json::parse(R"({"message": {"message": "ValueError: bad batch", "mark": 5, "errorCode": 3,
            "extraInfo": {"py_callstack": "Traceback: line 3", "timestamp": "17"}}})"));
}

TEST_CASE("beside log files the error file stays, and the report says where") {
    const TempDir dir;
    const TempDir logs;
    auto job = one_node(
        dir,
        {"--report-format=json", "--redirects=3", "--log-dir=" + logs.path().string()},
        write_error_file + "exit 3");
    CHECK(job.wait_for_code() == 3);

    const auto begin = job.err().find("{\"time\"");
    REQUIRE(begin != std::string::npos);
    const auto report = Json::parse(job.err().substr(begin));
    const std::string path = report["root_cause"]["worker"]["error_file"];
    CHECK(path.starts_with(logs.path().string() + "/"));
    CHECK(contains(read_file(path), "ValueError: bad batch"));
}

TEST_CASE("the report names the file that a worker's standard error is in") {
    const TempDir dir;
    const TempDir logs;
    const std::string words = "echo it was me >&2; exit 3";
    auto job = one_node(dir, {"--redirects=3", "--log-dir=" + logs.path().string()}, words);
    CHECK(job.wait_for_code() == 3);

    const auto at = job.err().find("\n  log            ");
    REQUIRE(at != std::string::npos);
    const auto path = job.err().substr(at + 18, job.err().find('\n', at + 1) - at - 18);
    CHECK(path.starts_with(logs.path().string() + "/"));
    CHECK(read_file(path) == "it was me\n");

    auto shown = one_node(dir, {}, words);
    CHECK(shown.wait_for_code() == 3);
    CHECK_FALSE(contains(shown.err(), "  log  "));
}

TEST_CASE("the parent of a worker without an error file gets the signal and the end of stderr") {
    const TempDir dir;
    const auto script = dir.write_script("die", "#!/bin/sh\necho the end >&2\nkill -KILL $$\n");
    Running::Options options;
    options.arguments = {"--standalone", "--no-python", script};
    options.environment["TORCHELASTIC_ERROR_FILE"] = (dir / "parent.json").string();
    Running job{program("ddprun"), options};

    CHECK(job.wait_for_code() == 128 + SIGKILL);
    const auto json = Json::parse(read_file(dir / "parent.json"));
    CHECK(json["message"]["errorCode"] == -9);
    CHECK(json["message"]["extraInfo"]["py_callstack"] == "the end\n");
}

TEST_CASE("a job that succeeds leaves its parent's error file alone") {
    const TempDir dir;
    Running::Options options;
    options.arguments = {"--standalone", "--no-python", stub("exit_with"), "0"};
    options.environment["TORCHELASTIC_ERROR_FILE"] = (dir / "parent.json").string();
    Running job{program("ddprun"), options};

    CHECK(job.wait_for_code() == 0);
    CHECK_FALSE(std::filesystem::exists(dir / "parent.json"));
}

TEST_CASE("an error file that is no report changes nothing") {
    const TempDir dir;
    for (const std::string& file :
         {std::string{"echo '{\"message\": ' > $TORCHELASTIC_ERROR_FILE"},
          std::string{"head -c 3000000 /dev/zero > $TORCHELASTIC_ERROR_FILE"},
          std::string{"mkfifo $TORCHELASTIC_ERROR_FILE"},
          std::string{"mkdir $TORCHELASTIC_ERROR_FILE"},
          std::string{"yes '[' | head -c 100000 | tr -d '\\n' > $TORCHELASTIC_ERROR_FILE"}}) {
        CAPTURE(file);
        Running::Options options;
        options.arguments = {
            "--standalone",
            "--no-python",
            dir.write_script("worker", "#!/bin/sh\n" + file + "\necho the end >&2\nexit 5\n")};
        // An existing folder of that name stays, since it is not ddprun's.
        options.environment["TMPDIR"] = dir.path().string();
        Running job{program("ddprun"), options};
        CHECK(job.wait_for_code() == 5);
        CHECK(contains(job.err(), "| the end"));
    }
}

TEST_CASE("error files are in a folder that no other user may enter, and no link is followed") {
    const TempDir dir;
    const TempDir temporary;
    dir.write("victim.json", R"({"message": {"message": "forged"}})");
    Running::Options options;
    options.arguments = {
        "--standalone",
        "--no-python",
        dir.write_script(
            "worker",
            "#!/bin/sh\n"
            "stat -c %a:%u \"$(dirname \"$TORCHELASTIC_ERROR_FILE\")\"\n"
            "ln -s " +
                (dir / "victim.json").string() +
                " \"$TORCHELASTIC_ERROR_FILE\"\n"
                "echo the end >&2\nexit 5\n")};
    options.environment["TMPDIR"] = temporary.path().string();
    Running job{program("ddprun"), options};

    CHECK(job.wait_for_code() == 5);
    CHECK(contains(job.out(), "700:" + std::to_string(::getuid())));
    CHECK(contains(job.err(), "| the end"));
    CHECK_FALSE(contains(job.err(), "forged"));
    CHECK(contains(read_file(dir / "victim.json"), "forged"));
    CHECK(std::filesystem::is_empty(temporary.path()));
}

TEST_CASE("the folder of error files does not outlive the agent, whatever becomes of the keeper") {
    const TempDir dir;
    const TempDir temporary;
    Running::Options options;
    const auto go = (dir / "go").string();
    options.arguments = {
        "--standalone",
        "--no-python",
        "sh",
        "-c",
        "echo up $PPID; until [ -e " + go + " ]; do sleep 0.01; done"};
    options.environment["TMPDIR"] = temporary.path().string();
    Running job{program("ddprun"), options};
    const auto agent = std::stoi(job.wait_for_line("^up ").substr(3));
    const int ended = static_cast<int>(::syscall(SYS_pidfd_open, agent, 0));
    REQUIRE(ended >= 0);
    CHECK_FALSE(std::filesystem::is_empty(temporary.path()));

    ::kill(job.pid(), SIGSTOP);
    std::ofstream{go};

    pollfd end{ended, POLLIN, 0};
    CHECK(::poll(&end, 1, static_cast<int>(std::chrono::milliseconds{fact_timeout}.count())) == 1);
    ::close(ended);
    CHECK(std::filesystem::is_empty(temporary.path()));
    ::kill(job.pid(), SIGCONT);
    CHECK(job.wait_for_code() == 0);
}

TEST_CASE("a job runs where no temporary file can be made") {
    const TempDir dir;
    Running::Options options;
    options.arguments = {
        "--standalone",
        "--no-python",
        dir.write_script("worker", "#!/bin/sh\necho the end >&2\nexit 5\n")};
    options.environment["TMPDIR"] = "/proc";
    Running job{program("ddprun"), options};

    CHECK(job.wait_for_code() == 5);
    CHECK(contains(job.err(), "| the end"));
}

TEST_CASE("a terminal gets colour, unless the environment rules it out") {
    const TempDir dir;
    const auto screen_with = [&](const std::map<std::string, std::string>& environment) {
        Running::Options options;
        options.arguments = {"--standalone", "--no-python", stub("exit_with"), "3"};
        options.environment = environment;
        options.has_terminal = true;
        Running job{program("ddprun"), options};
        CHECK(job.wait_for_code() == 3);
        return job.out();
    };

    const auto coloured = screen_with({{"TERM", "xterm"}, {"NO_COLOR", ""}});
    CHECK(contains(coloured, "\033[1;31mddprun: job"));
    const auto plain = screen_with({{"TERM", "xterm"}, {"NO_COLOR", "1"}});
    CHECK(contains(plain, "ddprun: job"));
    CHECK_FALSE(contains(plain, "\033"));
    CHECK_FALSE(contains(screen_with({{"TERM", "dumb"}}), "\033"));
}

TEST_CASE("a store out of reach is reported without a worker") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto report = (dir / "report.json").string();
    // A multicast address, to which no machine can open a TCP connection.
    const auto options = rendezvous.options({"--nnodes=2", "--local-addr=224.0.0.1"});

    auto a = start_job(dir, options + Words{"--report-file=" + report}, wait_for_ever);
    auto b = start_job(dir, options, wait_for_ever);
    CHECK(a.wait_for_code() == 1);
    CHECK(b.wait_for_code() == 1);

    CHECK(contains(a.err(), "224.0.0.1:"));
    CHECK_FALSE(contains(a.err(), "exited with code 0"));
    const auto cause = Json::parse(read_file(report))["root_cause"];
    CHECK(cause["kind"] == "store_unreachable");
    CHECK(contains(cause.dump(), "the worker store of this round is out of reach"));
    CHECK_FALSE(cause.contains("worker"));
}

TEST_CASE("a program that cannot be executed is named with what to do") {
    const TempDir dir;
    const auto script = dir.write_script("lost", "#!/no/such/interpreter\n");
    Running job{program("ddprun"), {"--standalone", "--no-python", script}};

    CHECK(job.wait_for_code() == 127);
    const auto report = unwrapped(report_of(job.err()));
    CAPTURE(report);
    CHECK(contains(report, ": could not be started: " + script + ": No such file or directory"));
    CHECK(contains(report, "the interpreter that its first line names"));
    CHECK(report.find("could not be started") == report.rfind("could not be started"));
    CHECK_FALSE(contains(report, "exited"));
}

// A sanitizer's own memory would be over the limit first.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a worker killed for lack of memory is reported as out of memory") {
    MemoryCgroup cgroup{128};
    if (!cgroup.why_not().empty()) return skip_even_as_root(cgroup.why_not());
    const TempDir dir;
    // Only this program is in the cgroup, and the worker is by far the biggest process.
    const auto script = dir.write_script(
        "start",
        "#!/bin/sh\necho $$ > " + cgroup.members_file() + "\nexec '" + program("ddprun") +
            "' --standalone --no-python " + stub_in_shell("eat_memory") + " 1024\n");
    Running job{script};

    CHECK(job.wait_for_code() == 128 + SIGKILL);
    CHECK(contains(job.err(), "killed by SIGKILL (out of memory)\n"));
    CHECK(contains(unwrapped(job.err()), "for lack of memory (memory limit 128 MiB)"));
}
#endif
