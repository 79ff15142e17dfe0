// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/remote.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher::ctl;
using namespace std::chrono_literals;
using control::ConnectError;
using Answer = control::JobCommandAnswer;
using Command = control::JobCommand;

namespace {

const std::string the_server = "node1:29400";

Answer with_jobs(std::vector<control::JobSummary> jobs) {
    Answer answer;
    answer.jobs = std::move(jobs);
    return answer;
}

control::JobSummary a_summary(const std::string& run_id) {
    control::JobSummary job;
    job.run_id = run_id;
    job.incarnation = "1a2b3c4d";
    job.state = "running";
    job.reason = "max nodes reached";
    job.round = 3;
    job.nnodes = "1:2";
    job.node_count = 2;
    job.world_size = 16;
    job.restarts_used = 1;
    job.max_restarts = 3;
    job.nodes = {{"node5\n", "1a2b3c4d", 4711, "running", 1, 8, 15, 1500ms}};
    job.drained_hosts = {{"node7", "drained by alice"}};
    return job;
}

}  // namespace

TEST_CASE("a command for a server has what was given, and the sender's name") {
    const RemoteServer there{{"node1", 29'400}};
    const auto command_of = [&](auto command) {
        return job_command_of({command, "run", std::nullopt, false, there}, "alice@login1");
    };
    const std::string by = "alice@login1";
    CHECK(
        command_of(control::StopJob{5s}) == Command{Command::What::stop, "run", {}, false, 5s, by});
    CHECK(
        command_of(control::DrainNodes{{"a", "3"}, true}) ==
        Command{Command::What::drain, "run", {"a", "3"}, true, std::nullopt, by});
    CHECK(
        command_of(control::UndrainNodes{{"a"}}) ==
        Command{Command::What::undrain, "run", {"a"}, false, std::nullopt, by});
    CHECK(
        command_of(control::ResizeJob{{2, 4, 1}}) == Command{
                                                         Command::What::resize,
                                                         "run",
                                                         {},
                                                         false,
                                                         std::nullopt,
                                                         by,
                                                         control::NodeRange{2, 4, 1}});
    CHECK(
        command_of(control::SignalWorkers{10, 4, 7}) == Command{
                                                            Command::What::signal,
                                                            "run",
                                                            {},
                                                            false,
                                                            std::nullopt,
                                                            by,
                                                            std::nullopt,
                                                            10,
                                                            control::RankRange{4, 7}});
    CHECK(command_of(control::SignalWorkers{10}).ranks == std::nullopt);
    CHECK(command_of(ShowStacks{RankRange{4, 7}}).what == Command::What::stacks);
    CHECK(command_of(ShowStacks{RankRange{4, 7}}).ranks == RankRange{4, 7});
    CHECK(
        command_of(ShowJob{}) == Command{Command::What::show, "run", {}, false, std::nullopt, by});
}

TEST_CASE("each answer of a server to a command has its exit code and one line") {
    using Out = Answer::Outcome;
    CHECK(outcome_of({Out::done, "it ends"}, "run") == Outcome{0, "run: it ends"});
    CHECK(outcome_of({Out::not_possible, "is\nover"}, "run") == Outcome{1, "run: is over"});
    CHECK(outcome_of({Out::no_such_job, "no job"}, "run") == Outcome{3, "no job"});
    CHECK(outcome_of({Out::not_allowed, "no secret"}, "run") == Outcome{4, "no secret"});
    CHECK(outcome_of({Out::not_answered, "silent"}, "run") == Outcome{5, "run: silent"});
    const auto code_of = [](control::ServerMessage message) {
        return std::get<Outcome>(answer_in(std::move(message), the_server)).exit_code;
    };
    CHECK(std::get<Answer>(answer_in(Answer{Out::done, "x"}, the_server)).text == "x");
    CHECK(code_of(control::ProtocolError{"unknown type"}) == 1);
    CHECK(code_of(control::Lost{}) == 5);
    CHECK(code_of(control::RankReport{}) == 5);
}

TEST_CASE("a failed connection to a server says what to give instead") {
    const std::vector<std::pair<ConnectError, int>> cases{
        {ConnectError::unresolved, 5},
        {ConnectError::refused, 5},
        {ConnectError::no_answer, 5},
        {ConnectError::wrong_protocol, 5},
        {ConnectError::wrong_version, 5},
        {ConnectError::lost, 5},
        {ConnectError::wrong_secret, 4},
        {ConnectError::not_encrypted, 4},
        {ConnectError::needs_secret, 4},
    };
    for (const auto& [error, code] : cases) {
        const auto outcome = outcome_of_failure(error, "it\x1b failed");
        CHECK(outcome.exit_code == code);
        CHECK(outcome.text.starts_with("it? failed"));
        CHECK((outcome.text.find("; ") == outcome.text.npos) == (error == ConnectError::lost));
    }
}

TEST_CASE("the jobs of a server are a table, and the only one has its nodes") {
    const auto list =
        shown_list(with_jobs({a_summary("one"), a_summary("two")}), the_server, false);
    CHECK(
        list.text ==
        "JOB  STATE    ROUND  NODES  WORKERS  RESTARTS  REASON\n"
        "one  running  3      2      16       1/3       max nodes reached\n"
        "two  running  3      2      16       1/3       max nodes reached\n");
    const auto job = shown_job(with_jobs({a_summary("one")}), the_server, false);
    CHECK(job.exit_code == 0);
    for (const std::string part :
         {"job         one\n",
          "server      node1:29400\n",
          "state       running, round 3\n",
          "drained     node7, drained by alice\n",
          "node5   1     1a2b3c4d  running  8-15   4711  1s ago",
          "and 1 more nodes\n"}) {
        CAPTURE(job.text);
        CHECK(job.text.find(part) != job.text.npos);
    }
    const auto json = shown_job(with_jobs({a_summary("one")}), the_server, true);
    CHECK(json.text.find("\"job\": {\n    \"run_id\": \"one\"") != json.text.npos);
}

TEST_CASE("no job and several jobs of a server have different exit codes") {
    CHECK(shown_list(with_jobs({}), the_server, false).exit_code == 0);
    CHECK(shown_list(with_jobs({}), the_server, true).text == "[]\n");
    CHECK(
        shown_job(with_jobs({}), the_server, false) ==
        Outcome{3, "no job of this secret runs on node1:29400"});
    CHECK(
        shown_job(with_jobs({a_summary("one"), a_summary("two")}), the_server, true) ==
        Outcome{2, "several jobs are meant: one, two; name one by its run id"});
    const Answer refused{Answer::Outcome::no_such_job, "no job 'x'"};
    CHECK(shown_job(refused, the_server, false) == Outcome{3, "no job 'x'"});
}
