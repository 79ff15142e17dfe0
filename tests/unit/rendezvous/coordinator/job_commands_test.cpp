// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/job_commands.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/codec.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

using What = control::JobCommand::What;

constexpr const char* stated_sender = "ddprunctl at 10.0.0.108 (stated: alice@login1)";

control::JobCommand a_job_command(What what, std::vector<std::string> nodes = {}) {
    control::JobCommand command{what, "job", std::move(nodes)};
    command.by = "alice@login1";
    return command;
}

/// The answer to a command that comes on the connection `ctl`.
std::string answer_to(Story& job, control::JobCommand command, bool has_proved_secret = true) {
    job.output();
    job.command("ctl", std::move(command), has_proved_secret);
    const auto lines = job.output();
    REQUIRE_FALSE(lines.empty());
    CHECK(std::count(lines.begin(), lines.end(), "ctl closed: a command was answered") == 1);
    const std::string start = "ctl job_command_answer ";
    for (const auto& line : lines)
        if (line.starts_with(start)) return line.substr(start.size());
    return {};
}

}  // namespace

TEST_CASE("a stop of another machine ends the job on every node, and its cause has the sender") {
    auto job = job_of("2", "a b");

    job.command("ctl", a_job_command(What::stop));
    const auto lines = job.output();
    const std::string reason = std::string{"stopped by "} + stated_sender;
    REQUIRE(lines.size() == 6);
    CHECK(
        lines[0] ==
        std::string{"stop job=job done by "} + stated_sender + " \"its workers have 30 s to end\"");
    CHECK(lines[1] == "ctl job_command_answer done \"its workers have 30 s to end\" jobs=0");
    CHECK(lines[2] == "draining: " + reason);
    CHECK(lines[3] == "a stop round=0 SIGTERM grace=30s \"" + reason + "\"");
    CHECK(lines[4] == "b stop round=0 SIGTERM grace=30s \"" + reason + "\"");
    CHECK(lines[5] == "ctl closed: a command was answered");

    CHECK(answer_to(job, a_job_command(What::stop)) == "done \"it is stopping already\" jobs=0");
    job.ready("a b");
    CHECK(job.whole_result("a").exit_code == 143);
    CHECK(job.whole_result("b").root_cause->reason == reason);
    CHECK(
        answer_to(job, a_job_command(What::stop)) ==
        "not_possible \"the job is over: " + reason + "\" jobs=0");
}

TEST_CASE("a stop of another machine may shorten the grace, and not extend it") {
    auto job = job_of("1", "a");
    auto command = a_job_command(What::stop);
    command.grace = 31s;
    CHECK(
        answer_to(job, command) ==
        "not_possible \"--grace=31 s is longer than the job's own (30 s, its --shutdown-timeout)\" "
        "jobs=0");
    command.grace = 2s;
    job.output();
    job.command("ctl", command);
    CHECK(job.output().at(3).starts_with("a stop round=0 SIGTERM grace=2s "));
}

TEST_CASE("a drain of another machine is performed as one that an agent forwards") {
    auto job = job_of("1:2", "a b");
    CHECK(
        answer_to(job, a_job_command(What::drain, {"x"})) ==
        "not_possible \"no node 'x'; there are a (group rank 0, 61000000), b (group rank 1, "
        "62000000)\" jobs=0");
    job.command("ctl", a_job_command(What::drain, {"b"}));
    const auto lines = job.output();
    CHECK(lines.back() == "ctl closed: a command was answered");
    CHECK(lines.at(3) == std::string{"b drain_order \"drained by "} + stated_sender + "\"");
    CHECK(
        answer_to(job, a_job_command(What::undrain, {"b"})) ==
        "not_possible \"b (group rank 1, 62000000) is still being drained: try again when it has "
        "left\" jobs=0");
    job.say("b", control::Leave{"drained", SIGTERM});
    job.ready("a b");
    job.drop("b");
    CHECK(job.status().drained_hosts.size() == 1);
    CHECK(
        answer_to(job, a_job_command(What::undrain, {"b"})) ==
        "done \"nodes of b may have a place\" jobs=0");
    CHECK(job.status().drained_hosts.empty());
}

TEST_CASE("a command without a proved secret does nothing, whatever it is") {
    auto job = job_of("1", "a");
    for (const auto what :
         {What::show,
          What::stop,
          What::drain,
          What::undrain,
          What::resize,
          What::signal,
          What::stacks}) {
        const auto text = answer_to(job, a_job_command(what, {"a"}), false);
        CHECK(text.starts_with("not_allowed \"this server has no secret"));
        CHECK(text.find("--rdzv-secret-file or DDPRUN_SECRET") != text.npos);
        CHECK(text.ends_with(" jobs=0"));
    }
    CHECK(job.status().state == "running");
}

TEST_CASE("for a caller of one tenant the jobs of another do not exist") {
    Story server{"1"};
    server.is_of_tenant("a", "blue");
    server.join("a");
    server.started("a");
    server.is_of_tenant("ctl", "red");
    const std::string none =
        "no_such_job \"no job 'job' on this server; it has none that runs\" jobs=0";
    for (const auto what :
         {What::show,
          What::stop,
          What::drain,
          What::undrain,
          What::resize,
          What::signal,
          What::stacks})
        CHECK(answer_to(server, a_job_command(what, {"a"})) == none);
    CHECK(answer_to(server, {What::show}) == "done \"\" jobs=0");

    server.is_of_tenant("ctl", "blue");
    CHECK(answer_to(server, {What::show}) == "done \"\" jobs=1");
    CHECK(answer_to(server, a_job_command(What::stop)).starts_with("done"));
}

TEST_CASE("an unknown job is answered with the names of those that run") {
    auto job = job_of("1", "a");
    CHECK(
        answer_to(job, {What::stop, "jbo"}) ==
        "no_such_job \"no job 'jbo' on this server; there are: job\" jobs=0");
    // The codec bounds the name, and the text for display is printable where it is shown.
    CHECK(answer_to(job, {What::stop, ""}).starts_with("no_such_job"));
}

TEST_CASE("a member's connection takes no command, and one that has commanded joins nothing") {
    auto job = job_of("1", "a");
    job.say("a", a_job_command(What::stop));
    CHECK(job.output().front() == "a error \"a command of a member\"");
    job.command("ctl", a_job_command(What::show));
    job.output();
    job.say("ctl", job.join_of("ctl"));
    CHECK(job.output().empty());
}

TEST_CASE("the stated name of a command's sender is bounded, printable and marked") {
    CHECK(
        sender_text("10.0.0.5", "alice@login1") == "ddprunctl at 10.0.0.5 (stated: alice@login1)");
    CHECK(sender_text("10.0.0.5", "") == "ddprunctl at 10.0.0.5");
    CHECK(sender_text("::1", "a\n\x1b[2Jb") == "ddprunctl at ::1 (stated: a ?[2Jb)");
    const auto cut = sender_text("::1", std::string(255, 'x'));
    CHECK(
        cut ==
        "ddprunctl at ::1 (stated: " + std::string(limits::max_stated_name_bytes, 'x') + ")");
}

TEST_CASE("an answer about jobs of the biggest size fits into a frame") {
    JobStatus status;
    status.run_id = std::string(limits::max_name_bytes, 'r');
    status.incarnation = status.run_id;
    status.state = "recovering";
    status.reason = std::string(limits::max_free_text_bytes, 'x');
    status.round = limits::last_round;
    status.world_size = std::numeric_limits<int>::max();
    status.node_count = limits::max_nodes_per_job;
    status.restarts_used = status.max_restarts = 1'000'000;
    NodeStatus node;
    node.host = std::string(limits::max_name_bytes, '"');
    node.nonce = "12345678";
    node.pid = std::numeric_limits<int>::max();
    node.state = "succeeded";
    node.group_rank = node.first_rank = node.last_rank = std::numeric_limits<int>::max();
    node.heard_ago_s = 1'234'567.123456789;
    status.nodes.assign(limits::max_status_nodes, node);
    status.drained_hosts.assign(limits::max_drained_hosts, {node.host, status.reason});
    control::JobCommandAnswer one;
    one.jobs.push_back(summary_of(status, true));
    CHECK(one.jobs.front().nodes.size() == limits::max_summary_nodes);
    CHECK(control::encode(control::ServerMessage{one}).size() <= limits::max_control_frame_bytes);
    control::JobCommandAnswer many;
    many.jobs.assign(limits::max_summary_jobs, summary_of(status, false));
    CHECK(many.jobs.front().nodes.empty());
    CHECK(control::encode(control::ServerMessage{many}).size() <= limits::max_control_frame_bytes);
}
