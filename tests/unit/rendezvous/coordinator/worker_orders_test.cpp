// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/codec.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

using Order = control::WorkerOrder;

constexpr const char* commander = "ddprunctl at 10.0.0.108 (stated: alice@login1)";
const std::string answered = "ctl closed: a command was answered";

control::JobCommand worker_command(
    control::JobCommand::What what, std::optional<control::RankRange> ranks = {}) {
    control::JobCommand command{what, "job"};
    command.by = "alice@login1";
    command.ranks = ranks;
    if (what == control::JobCommand::What::signal) command.signal = SIGUSR1;
    return command;
}

control::JobCommand a_signal(std::optional<control::RankRange> ranks = {}) {
    return worker_command(control::JobCommand::What::signal, ranks);
}

control::JobCommand a_look(std::optional<control::RankRange> ranks = {}) {
    return worker_command(control::JobCommand::What::stacks, ranks);
}

control::WorkerAnswer signalled(std::uint64_t id, control::RankRange ranks, std::string text) {
    return {id, Order::What::signal, ranks, true, std::move(text)};
}

control::WorkerAnswer looked(std::uint64_t id, int rank) {
    return {id, Order::What::stack, {rank, rank}, true, "", control::RankStack{rank, 4711, "busy"}};
}

/// Two nodes with two workers each, and the command, whose orders they have got.
Story commanded(const control::JobCommand& command) {
    auto job = job_of("2", "a b");
    job.command("ctl", command);
    job.output();
    return job;
}

}  // namespace

TEST_CASE("a signal of another machine is an order to each node, answered when all have done it") {
    auto job = job_of("2", "a b");
    job.command("ctl", a_signal());
    CHECK(
        job.output() == Lines{
                            "a worker_order id=1 round=0 signal SIGUSR1 ranks 0 to 1",
                            "b worker_order id=2 round=0 signal SIGUSR1 ranks 2 to 3"});

    job.say("b", signalled(2, {2, 3}, "SIGUSR1 to ranks 2 to 3 on b"));
    CHECK(job.output().empty());
    job.say("a", signalled(1, {0, 1}, "SIGUSR1 to ranks 0 to 1 on a"));
    const std::string text = "SIGUSR1 to ranks 0 to 1 on a; SIGUSR1 to ranks 2 to 3 on b";
    CHECK(
        job.output() ==
        Lines{
            "signal job=job SIGUSR1 done by " + std::string{commander} + " \"" + text + "\"",
            "ctl job_command_answer done \"" + text + "\" jobs=0",
            answered});
    CHECK(job.status().state == "running");
}

TEST_CASE("some ranks are an order to their nodes, and ranks that do not exist none") {
    auto job = job_of("2", "a b");
    job.command("ctl", a_signal(control::RankRange{1, 2}));
    CHECK(
        job.output() == Lines{
                            "a worker_order id=1 round=0 signal SIGUSR1 rank 1",
                            "b worker_order id=2 round=0 signal SIGUSR1 rank 2"});
    job.command("ctl", a_signal(control::RankRange{3, 99}));
    CHECK(job.output() == Lines{"b worker_order id=3 round=0 signal SIGUSR1 rank 3"});
    job.command("ctl", a_signal(control::RankRange{4, 5}));
    CHECK(
        job.output().at(1) ==
        "ctl job_command_answer not_possible \"there is no rank 4: the job has ranks 0 to 3\" "
        "jobs=0");
}

TEST_CASE(
    "a look of another machine is an order for each rank, and the caller sees each as it "
    "comes") {
    auto job = job_of("2", "a b");
    job.command("ctl", a_look(control::RankRange{1, 2}));
    CHECK(
        job.output() == Lines{
                            "a worker_order id=1 round=0 stack rank 1",
                            "b worker_order id=2 round=0 stack rank 2"});
    job.say("b", looked(2, 2));
    CHECK(job.output() == Lines{"ctl rank_report rank=2 busy"});
    job.say("a", {control::WorkerAnswer{1, Order::What::stack, {1, 1}, false, "rank 1 has ended"}});
    const std::string text =
        "1 of 2 workers were looked at; not done for rank 1 on a: rank 1 has ended";
    CHECK(
        job.output() == Lines{
                            "ctl rank_report rank=1 \"rank 1 has ended\"",
                            "stacks job=job ranks 1 to 2 not_possible by " +
                                std::string{commander} + " \"" + text + "\"",
                            "ctl job_command_answer not_possible \"" + text + "\" jobs=0",
                            answered});
}

TEST_CASE("an agent that has not answered in time is named, and the command is not answered") {
    auto signal = commanded(a_signal());
    signal.say("a", signalled(1, {0, 1}, "SIGUSR1 to ranks 0 to 1 on a"));
    signal.pass(limits::worker_order_timeout - 1ms, "a b");
    CHECK(signal.output().empty());
    signal.pass(1ms, "a b");
    const auto lines = signal.output();
    REQUIRE(lines.size() == 3);
    CHECK(
        lines[1] ==
        "ctl job_command_answer not_answered \"SIGUSR1 to ranks 0 to 1 on a; not done for ranks 2 "
        "to 3 on b: the agent has not answered within 8 s, and may still do it\" jobs=0");
    CHECK(lines[2] == answered);
    signal.say("b", signalled(2, {2, 3}, "late"));
    CHECK(signal.output().empty());

    auto look = commanded(a_look());
    look.pass(limits::worker_order_timeout, "a b");
    CHECK(
        look.output().front() ==
        "ctl rank_report rank=0 \"the agent has not answered within 8 s, and may still do it\"");
}

TEST_CASE("a refusal of an agent is the reason, unless another has not answered at all") {
    auto job = commanded(a_signal());
    job.say("a", {control::WorkerAnswer{1, Order::What::signal, {0, 1}, false, "none runs"}});
    job.say("b", signalled(2, {2, 3}, "SIGUSR1 to ranks 2 to 3 on b"));
    CHECK(
        job.output().at(1) ==
        "ctl job_command_answer not_possible \"SIGUSR1 to ranks 2 to 3 on b; not done for ranks 0 "
        "to 1 on a: none runs\" jobs=0");
    job.command("ctl", a_signal());
    job.output();
    job.say("a", {control::WorkerAnswer{3, Order::What::signal, {0, 1}, false, "none runs"}});
    job.pass(limits::worker_order_timeout, "a b");
    CHECK(job.output().at(1).starts_with("ctl job_command_answer not_answered \"ranks 0 to 1 on "));
}

TEST_CASE(
    "an answer counts once, with the order's kind and ranks, on the link that has the order") {
    auto job = commanded(a_look(control::RankRange{2, 2}));
    const auto stale = job.coordinator().stale_count();
    auto other_kind = looked(1, 2);
    other_kind.what = Order::What::signal;
    auto other_ranks = looked(1, 2);
    other_ranks.ranks = {2, 3};
    job.say("b", other_kind);
    job.say("b", other_ranks);
    job.say("b", looked(2, 2));
    job.say("a", looked(1, 2));
    job.drop("b");
    job.resume("b", control::NodeState::running);
    job.output();
    // The order was sent on the connection before.
    job.say("b", looked(1, 2));
    CHECK(job.output().empty());
    CHECK(job.coordinator().stale_count() == stale + 5);

    auto once = commanded(a_look(control::RankRange{2, 3}));
    once.say("b", looked(1, 2));
    CHECK(once.output().size() == 1);
    once.say("b", looked(1, 2));
    CHECK(once.output().empty());
    // What came with the answer to a signal is not shown.
    auto signal = commanded(a_signal(control::RankRange{2, 2}));
    auto with_stack = signalled(1, {2, 2}, "done");
    with_stack.stack = control::RankStack{2, 4711, "busy"};
    signal.say("b", with_stack);
    CHECK(signal.output().size() == 3);
    // A stack of another rank is none of this one.
    auto wrong_stack = looked(2, 3);
    wrong_stack.stack->rank = 2;
    once.say("b", wrong_stack);
    CHECK(once.output().front() == "ctl rank_report rank=3 \"\"");
}

TEST_CASE("a node without a connection gets no order, and its ranks count as not answered") {
    auto job = job_of("2", "a b");
    job.drop("b");
    job.command("ctl", a_look(control::RankRange{2, 2}));
    const auto lines = job.output();
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == "ctl rank_report rank=2 \"its node has no connection to the server now\"");
    CHECK(lines[2].starts_with("ctl job_command_answer not_answered "));
    CHECK(lines[3] == answered);
}

TEST_CASE("ranks of nodes that have not come back to a server count as not answered") {
    auto job = job_of("2", "a b");
    job.restart_server();
    job.resume("a", control::NodeState::running);
    job.pass(31s, "a");
    REQUIRE(job.status().state == "draining");
    job.output();
    job.command("ctl", a_signal());
    CHECK(job.output() == Lines{"a worker_order id=1 round=0 signal SIGUSR1 ranks 0 to 1"});
    job.say("a", signalled(1, {0, 1}, "SIGUSR1 to ranks 0 to 1 on a"));
    CHECK(
        job.output().at(1) ==
        "ctl job_command_answer not_answered \"SIGUSR1 to ranks 0 to 1 on a; not done for ranks 2 "
        "to 3 on an unknown node: its node has no connection to the server now\" jobs=0");
}

TEST_CASE("a node of an older release gets no order") {
    Story job{"1"};
    job.run("a");
    job.command("ctl", a_signal());
    CHECK(
        job.output().at(1) ==
        "ctl job_command_answer not_possible \"ranks 0 to 1 on a: its node runs an older release "
        "of ddprun\" jobs=0");
}

TEST_CASE("where no worker runs, none is signalled") {
    const auto refusal = [](Story& job) {
        job.output();
        job.command("ctl", a_signal());
        const auto lines = job.output();
        CHECK(lines.back() == answered);
        return lines.at(1);
    };
    Story forming{"2", 3, speaks_version_2};
    forming.join("a");
    CHECK(refusal(forming).starts_with("ctl job_command_answer not_possible \"no worker runs now"));
    auto over = job_of("1", "a");
    over.succeeded("a");
    CHECK(refusal(over).starts_with("ctl job_command_answer not_possible \"the job is over: "));
    auto recovering = job_of("2", "a b");
    recovering.restart_server();
    recovering.resume("a", control::NodeState::running);
    CHECK(refusal(recovering).find("waits for its nodes") != std::string::npos);
    auto nothing = job_of("1", "a");
    auto command = a_signal();
    command.signal = 0;
    nothing.command("ctl", command);
    CHECK(nothing.output().at(1).find("no signal is given") != std::string::npos);
}

TEST_CASE("a caller that is gone is answered no more") {
    auto job = commanded(a_signal());
    job.drop("ctl");
    job.say("a", signalled(1, {0, 1}, "done"));
    job.say("b", signalled(2, {2, 3}, "done"));
    job.pass(limits::worker_order_timeout, "a b");
    CHECK(job.output().empty());
}

TEST_CASE("a connection takes nothing after its command") {
    for (const bool is_join : {true, false}) {
        auto job = commanded(a_signal());
        if (is_join)
            job.say("ctl", job.join_of("ctl"));
        else
            job.say("ctl", a_signal());
        CHECK(
            job.output() == Lines{
                                "ctl error \"a message after a command\"",
                                "ctl closed: a message after a command"});
        job.pass(limits::worker_order_timeout, "a b");
        CHECK(job.output().empty());
        CHECK(job.status().node_count == 2);
    }
}

TEST_CASE("the commands that wait and the workers of one look are bounded") {
    auto job = job_of("1", "a");
    for (std::size_t i = 0; i < limits::max_open_commands; ++i)
        job.command("ctl", a_signal());
    job.output();
    job.command("ctl", a_signal());
    CHECK(
        job.output().at(1) ==
        "ctl job_command_answer not_possible \"it waits for the agents with 16 other commands: try "
        "again\" jobs=0");

    Story big{"1", 3, [](control::Join& join) {
                  speaks_version_2(join);
                  join.nproc = static_cast<int>(limits::max_ordered_stacks) + 1;
              }};
    big.run("a");
    big.command("ctl", a_look());
    CHECK(
        big.output().at(1) ==
        "ctl job_command_answer not_possible \"these are 257 workers, and one command shows at "
        "most 256: name some by --ranks=FIRST-LAST\" jobs=0");
}

TEST_CASE("the reports of one look fit into the queue of its caller") {
    control::RankReport report{1'000'000, control::RankStack{}};
    report.stack->activity = std::string(limits::max_name_bytes, '"');
    report.stack->stacks = report.problem = std::string(limits::max_free_text_bytes, '"');
    const auto size = control::encode(control::ServerMessage{report}).size();
    CHECK(size * limits::max_ordered_stacks < limits::max_control_backlog_bytes);
}

TEST_CASE("a command whose job ends meanwhile is answered in time") {
    auto job = commanded(a_signal());
    job.succeeded("a b");
    job.drop("a");
    job.drop("b");
    job.output();
    job.pass(limits::worker_order_timeout);
    CHECK(job.output().at(1).starts_with("ctl job_command_answer not_answered "));
}
