// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/session.hpp"
#include "tests/process/ddprun/http_get.hpp"
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace ddprun::test;

namespace {

/// Suppresses the note of a node that has waited for a few seconds.
const std::string complaint_only = "--log-level=error";

struct Complaint {
    int code;
    std::string text;
};

Complaint complaint(const Words& arguments) {
    Running job{program("ddprun"), arguments};
    const int code = job.wait_for_code();
    return {code, job.err()};
}

/// Headline, next step and exit code, wrapped at 80 columns.
constexpr std::size_t most_lines_of_next_step = 7;

void check_complaint(
    const Words& arguments, int code, const Words& words, std::size_t most_lines = 3) {
    const auto seen = complaint(arguments);
    CAPTURE(seen.text);
    CHECK(seen.code == code);
    for (const auto& word : words)
        CHECK_MESSAGE(contains(seen.text, word), word);
    const auto lines = sorted_lines(seen.text);
    CHECK(lines.size() >= 1);
    CHECK(lines.size() <= most_lines);
    CHECK(no_descendants_left());
}

}  // namespace

TEST_CASE("an unknown option is named, with 2") {
    check_complaint({"--nproc_per_nod_e=2", "x.py"}, 2, {"--nproc_per_nod_e"});
}

TEST_CASE("an impossible node range is named with what is accepted, with 2") {
    check_complaint({"--nnodes=4:2", "x.py"}, 2, {"nnodes", "4:2", "MIN"});
}

TEST_CASE("without a script ddprun says what is missing, with 2") {
    check_complaint({"--standalone"}, 2, {"script"});
}

TEST_CASE("a script that is not there is found before anything starts, with 127") {
    check_complaint({"--standalone", "/nowhere/train.py"}, 127, {"/nowhere/train.py"});
    check_complaint({"--standalone", "--no-python", "no-such-program"}, 127, {"no-such-program"});
}

TEST_CASE("a program that may not be executed is named, with 126") {
    const TempDir dir;
    const auto path = dir.write("data", "hello\n");

    check_complaint({"--standalone", "--no-python", path}, 126, {path});
}

TEST_CASE("too few descriptors are named, with what is needed, before anything starts") {
    const TempDir dir;
    const auto script = dir.write_script("worker", "#!/bin/sh\necho up\n");
    const auto at_limit = [&](const std::string& limit) {
        return Running{
            "/bin/sh",
            {"-c",
             "ulimit -n " + limit + "; exec \"$0\" \"$@\"",
             program("ddprun"),
             "--standalone",
             "--nproc-per-node=16",
             "--tee=3",
             "--log-dir=" + (dir / "logs").string(),
             "--no-python",
             script}};
    };
    auto refused = at_limit("100");
    CHECK(refused.wait_for_code() == 1);
    const std::string said = "ddprun: the hard limit of open files is 100 (RLIMIT_NOFILE), but ";
    CAPTURE(refused.err());
    REQUIRE(refused.err().starts_with(said));
    CHECK(std::count(refused.err().begin(), refused.err().end(), '\n') == 1);
    CHECK(refused.out().empty());

    const auto needed = std::to_string(std::stoi(refused.err().substr(said.size())));
    auto accepted = at_limit(needed);
    CHECK(accepted.wait_for_code() == 0);
    CHECK_FALSE(contains(accepted.err(), "Too many open files"));
    CHECK(sorted_lines(accepted.out()).size() == 16);
}

TEST_CASE("a name that does not resolve is named when the time to join is over") {
    const TempDir dir;
    const auto script = dir.write_script("x", "#!/bin/sh\n");

    check_complaint(
        {"--nnodes=2",
         "--rdzv-backend=c10d",
         "--rdzv-endpoint=no-such-host.invalid:29400",
         "--rdzv-conf=join_timeout=6",
         complaint_only,
         "--no-python",
         script},
        81,
        {"no-such-host.invalid", "resolve", "next step"},
        most_lines_of_next_step);
}

TEST_CASE("an endpoint where no process listens is named when the time to join is over") {
    const TempDir dir;
    const auto script = dir.write_script("x", "#!/bin/sh\n");
    const auto port = std::to_string(free_port());

    check_complaint(
        {"--nnodes=2",
         "--rdzv-backend=c10d",
         "--rdzv-endpoint=127.0.0.1:" + port,
         "--rdzv-conf=join_timeout=6,is_host=0",
         complaint_only,
         "--no-python",
         script},
        81,
        {"127.0.0.1:" + port, "refused", "next step"},
        most_lines_of_next_step);
}

TEST_CASE("a node that no other node joins exits with 80") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto script = dir.write_script("x", "#!/bin/sh\n");

    check_complaint(
        rendezvous.options(
            {"--nnodes=2", "--rdzv-conf=join_timeout=6", complaint_only, "--no-python", script}),
        80,
        {"1 of 2", "next step"},
        most_lines_of_next_step);
}

TEST_CASE("garbage on the port changes nothing") {
    const TempDir dir;
    const Rendezvous rendezvous;
    const auto go = (dir / "go").string();
    auto job = start_job(
        dir,
        rendezvous.options({"--nnodes=1"}),
        "echo up\nwhile [ ! -e " + go + " ]; do sleep 0.05; done");
    job.wait_for_line("up");

    CHECK(say(rendezvous.endpoint, "\x16\x03\x01 hello") == ddprun::tls::no_encryption_here);
    CHECK(say(rendezvous.endpoint, std::string(100'000, 'x')) == "");
    CHECK(contains(say(rendezvous.endpoint, "GET /nothing HTTP/1.1\r\n\r\n"), "404"));
    say(rendezvous.endpoint, "DDPRUN/9\n");
    say(rendezvous.endpoint, std::string{"DDPRUN/1\n\xff\xff\xff\xff{}", 15});

    dir.write("go", "");
    CHECK(job.wait_for_code() == 0);
    CHECK(no_descendants_left());
}

TEST_CASE("a worker that dies before it joined the store is the root cause") {
    const TempDir dir;
    auto job = one_node(
        dir, {"--nproc-per-node=2"}, "if [ $RANK = 0 ]; then exit 5; fi\n" + wait_for_ever);

    CHECK(job.wait_for_code() == 5);
    CHECK(contains(job.err(), "rank 0"));
}
