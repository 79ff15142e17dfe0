// SPDX-License-Identifier: Apache-2.0
#include "agent/command/decision.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/versions.hpp"
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;

namespace {

const std::string by = "stopped by ddprunctl (user alice, pid 4711 on here)";

}  // namespace

TEST_CASE("a commanded stop: the workers get SIGTERM, and the server is to end the job") {
    Story story;
    run_workers(story);

    story.is(A::StopCommanded{by, 5s});
    CHECK(
        story.asked() == Effects{
                             A::Send{1, ctl::Leave{by, SIGTERM, true, 5s}},
                             G::SignalLeader{0, SIGTERM},
                             G::SignalLeader{1, SIGTERM}});
    story.is(A::StopCommanded{by});
    CHECK(story.asked().empty());

    // The server's order to stop is expected then.
    auto stop = a_stop();
    stop.reason = stop.root_cause.reason = by;
    stop.grace = 5s;
    story.hears(stop);
    CHECK(story.asked_for<A::NoteStopping>().empty());

    story.pass(5s);
    CHECK(story.asked_for<G::KillSession>().size() == 2);
    story.all_exit(by_sigkill);
    story.has_no_leftovers();
    // There is no result before the other nodes' grace has passed.
    story.pass(2s);
    CHECK(story.agent.phase() == Phase::joining);
    ctl::Cause cause;
    cause.kind = ctl::Cause::Kind::cancelled;
    cause.reason = by;
    cause.signal = SIGTERM;
    story.hears(ctl::JobResult{ctl::Outcome::cancelled, cause, 143});
    CHECK(story.report().exit_code == 143);
    CHECK(story.report().root_cause->reason == by);
}

TEST_CASE("to a server of version 1 a commanded stop is an interrupt, which alone ends the job") {
    Story story(a_config(2));
    join_server(story, 1);

    story.is(A::StopCommanded{by, 5s});

    CHECK(story.said<ctl::Leave>() == std::vector{ctl::Leave{by, SIGINT}});
}

TEST_CASE("a commanded stop of the node that hosts the server ends the job alone, not the server") {
    Story story(a_config(2));
    story.is(A::HostingChanged{true});
    run_workers(story);

    story.is(A::StopCommanded{by, 5s});

    CHECK(story.said<ctl::Leave>() == std::vector{ctl::Leave{by, SIGTERM, true, 5s}});
    CHECK(story.asked_for<A::InterruptServer>().empty());
    CHECK(story.agent.fate() == A::Fate::job_ends);
}

TEST_CASE("before its own server has this node, a commanded stop ends what the server has") {
    Story story(a_config(2));
    story.is(A::HostingChanged{true});
    story.is(A::Began{});

    story.is(A::StopCommanded{by, 5s});

    CHECK(
        story.asked_for<A::InterruptServer>() == std::vector{A::InterruptServer{SIGTERM, by, 5s}});
}

TEST_CASE("a commanded stop of a node that leaves alone ends the job after all") {
    Story story(a_config(2));
    run_workers(story);
    story.is(A::Signalled{SIGTERM});
    CHECK(story.said<ctl::Leave>().size() == 1);
    CHECK_FALSE(story.said<ctl::Leave>().back().ends_job);
    CHECK(story.agent.fate() == A::Fate::open);
    story.asked();

    story.is(A::StopCommanded{by, 5s});

    CHECK(story.agent.fate() == A::Fate::job_ends);
    REQUIRE(story.said<ctl::Leave>().size() == 1);
    CHECK(story.said<ctl::Leave>().back() == ctl::Leave{by, SIGTERM, true, 5s});
    // The workers have already got SIGTERM; now their grace is shorter.
    CHECK(story.asked_for<G::SignalLeader>().empty());
    story.pass(5s);
    CHECK(story.asked_for<G::KillSession>().size() == 2);
    story.all_exit(by_sigkill);
    story.has_no_leftovers();
    // A node that leaves alone would have ended by now.
    story.pass(2s);
    CHECK(story.agent.phase() == Phase::joining);
}

TEST_CASE("what a commanded stop cannot turn any more is known") {
    Story interrupted(a_config(2));
    run_workers(interrupted);
    interrupted.is(A::Signalled{SIGINT});
    CHECK(interrupted.agent.fate() == A::Fate::job_ends);

    Story hosting(a_config(2));
    hosting.is(A::HostingChanged{true});
    run_workers(hosting);
    hosting.is(A::Signalled{SIGTERM});
    CHECK(hosting.agent.fate() == A::Fate::job_ends);

    Story broken(a_config(2));
    run_workers(broken);
    broken.hears(ctl::ProtocolError{"a second join"});
    CHECK(broken.agent.fate() == A::Fate::node_ends);
    broken.is(A::StopCommanded{by});
    CHECK(broken.said<ctl::Leave>().empty());

    Story over(a_config(2));
    run_workers(over);
    over.hears(ctl::JobResult{ctl::Outcome::succeeded, std::nullopt, 0});
    CHECK(over.agent.fate() == A::Fate::job_ends);
}

TEST_CASE("a commanded stop before any server answered ends the node at once") {
    Story story;
    story.is(A::Began{});
    story.is(A::StopCommanded{by});
    CHECK(story.report().exit_code == 143);
    CHECK(story.report().reason == by);
}

TEST_CASE("the view of a node has its phase, its round, and how long it has been there") {
    const auto config = a_config(2);
    Story story(config);
    const auto view = [&] {
        return command::view_of(story.agent, config, {"node1:1", {}}, story.clock);
    };
    story.joined();
    CHECK(view().state == "joining");
    CHECK_FALSE(view().assignment);
    story.hears(ctl::Standby{"1 of 2 nodes joined", 1});
    CHECK(view().reason == "1 of 2 nodes joined");

    auto assignment = an_assignment(4);
    assignment.neighbours.push_back({});
    story.hears(assignment);
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.pass(3s);
    CHECK(view().state == "running");
    CHECK(view().reason.empty());
    CHECK(view().since == 3s);
    CHECK(view().age == 3s);
    CHECK(view().endpoint == "node1:1");
    CHECK(view().incarnation == "inc");
    CHECK(view().is_connected);
    CHECK(view().pid == 50);
    CHECK(view().worker_count == 2);
    REQUIRE(view().assignment);
    CHECK(view().assignment->round == 4);
    CHECK(view().assignment->neighbours.empty());

    story.is(A::StopCommanded{by});
    CHECK(view().state == "stopping");
    CHECK(view().reason == by);
    CHECK(view().since == 0s);
}

namespace {

const std::string drained = "drained by ddprunctl (user alice, pid 4711 on there)";

}  // namespace

TEST_CASE("a drained node leaves as by SIGTERM, with the command as the reason and code 85") {
    Story story(a_config(2));
    run_workers(story);

    story.hears(ctl::DrainOrder{drained});
    CHECK(
        story.asked() == Effects{
                             A::NoteDrained{drained},
                             A::Send{1, ctl::Leave{drained, SIGTERM}},
                             G::SignalLeader{0, SIGTERM},
                             G::SignalLeader{1, SIGTERM}});
    // The server repeats it after a resume, and a scheduler may send SIGTERM as well.
    story.hears(ctl::DrainOrder{drained});
    story.is(A::Signalled{SIGTERM});
    CHECK(story.said<ctl::Leave>().empty());
    CHECK(story.agent.fate() == A::Fate::open);

    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.pass(1s);
    CHECK(story.report().exit_code == 85);
    CHECK(story.report().outcome == ctl::Outcome::cancelled);
    CHECK(story.report().reason == drained);
}

TEST_CASE("a job that is stopped while a node of it is drained ends as stopped there, too") {
    Story story(a_config(2));
    run_workers(story);
    story.hears(ctl::DrainOrder{drained});

    story.is(A::StopCommanded{by, 5s});
    CHECK(story.said<ctl::Leave>().back() == ctl::Leave{by, SIGTERM, true, 5s});
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.pass(60s);
    CHECK(story.report().exit_code == 143);
}

TEST_CASE("a drained node that hosts the server ends the job, as SIGTERM there does") {
    Story story(a_config(2));
    story.is(A::HostingChanged{true});
    run_workers(story);
    CHECK(story.agent.is_connected());

    story.hears(ctl::DrainOrder{drained});

    CHECK(
        story.asked_for<A::InterruptServer>() ==
        std::vector{A::InterruptServer{SIGTERM, drained, std::nullopt}});
}

TEST_CASE("a drain is passed on to the server, and its answer passed back") {
    Story story(a_config(2));
    run_workers(story);
    const ctl::Drain drain{7, {"node5"}, true, "ddprunctl"};

    story.is(A::DrainCommanded{drain});
    CHECK(story.asked() == Effects{A::Send{1, drain}});
    story.hears(ctl::DrainAnswer{7, true, "node5 leaves"});
    CHECK(story.asked() == Effects{A::AnswerCommand{7, true, "node5 leaves"}});
    story.is(A::UndrainCommanded{8, {"node5"}, "ddprunctl"});
    CHECK(story.said<ctl::Undrain>().size() == 1);
    story.is(A::ResizeCommanded{9, {1, 3}, "ddprunctl"});
    CHECK(story.said<ctl::Resize>() == std::vector{ctl::Resize{9, {1, 3}, "ddprunctl"}});

    story.is(A::LinkClosed{story.link, A::ConnectError::lost, "reset"});
    story.asked();
    story.is(A::DrainCommanded{drain});
    CHECK(
        story.asked() == Effects{A::AnswerCommand{
                             7, false, "this node has just lost its connection to the server"}});
}

TEST_CASE("a node keeps the size of a resized job for the next server") {
    Story story(a_config(2));
    run_workers(story);
    CHECK(story.agent.nodes() == a_config(2).join.nodes);
    const ctl::Resized resized{2, {1, 3}};

    story.hears(resized);
    CHECK(story.agent.nodes() == resized.nodes);
    story.loses_server();
    if (story.asked_for<A::Connect>().empty()) story.pass(1s);
    story.link = story.asked_for<A::Connect>().back().link;
    story.asked();
    story.is(A::LinkOpened{story.link, "10.0.0.2:40001", control::resize_since});
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().back().resized == resized);
    // The job is started with the first size, which its nodes must agree on.
    CHECK(story.said<ctl::Resume>().back().join.nodes == a_config(2).join.nodes);
}

TEST_CASE("a node keeps the drained hosts for the next server, the last list that it got") {
    Story story(a_config(2));
    run_workers(story);
    const ctl::Drained list{2, {{"node5", drained}}};
    story.hears(ctl::Drained{1, {{"node4", drained}}});
    story.hears(list);
    story.loses_server();
    if (story.asked_for<A::Connect>().empty()) story.pass(1s);
    story.link = story.asked_for<A::Connect>().back().link;
    story.asked();
    story.is(A::LinkOpened{story.link, "10.0.0.2:40001", control::drained_since});
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>().back().drained == list);
}

TEST_CASE("where ranks save before a node is taken away, they do before it is drained") {
    Story story(a_config(2));
    run_workers(story);
    story.is(A::SavesRead{0, {{0, 7}}});

    story.hears(ctl::DrainOrder{drained});
    CHECK(story.asked_for<A::NoteNotice>().front().reason == drained);
    CHECK(story.said<ctl::Notice>().front().reason == drained);
    story.hears(ctl::NoticeOver{"saved"});
    CHECK(story.said<ctl::Leave>() == std::vector{ctl::Leave{drained, SIGTERM}});
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.pass(1s);
    CHECK(story.report().exit_code == 85);
}

namespace {

using Order = ctl::WorkerOrder;

Order an_order(std::uint64_t id, Order::What what, int round = 0) {
    Order order{id, round, what, 0, {0, 0}, "ddprunctl at 10.0.0.5"};
    if (what == Order::What::signal) order.signal = SIGUSR1;
    return order;
}

}  // namespace

TEST_CASE("an order of the server is performed as a command here, and answered once") {
    Story story(a_config(2));
    run_workers(story);
    const auto signal = an_order(7, Order::What::signal);
    story.hears(signal);
    CHECK(story.asked() == Effects{A::PerformOrder{story.link, signal}});
    story.is(A::OrderPerformed{story.link, 7, ctl::CommandDone{"SIGUSR1 to rank 0 on here"}});
    CHECK(
        story.asked() ==
        Effects{A::Send{
            story.link,
            ctl::WorkerAnswer{7, Order::What::signal, {0, 0}, true, "SIGUSR1 to rank 0 on here"}}});
    story.is(A::OrderPerformed{story.link, 7, ctl::CommandDone{"again"}});
    CHECK(story.said<ctl::WorkerAnswer>().empty());

    const ctl::RankStack stack{0, 4711, "busy"};
    story.hears(an_order(8, Order::What::stack));
    story.is(A::OrderPerformed{story.link, 8, stack});
    CHECK(
        story.said<ctl::WorkerAnswer>() ==
        std::vector{ctl::WorkerAnswer{8, Order::What::stack, {0, 0}, true, "", stack}});
    story.hears(an_order(9, Order::What::stack));
    story.is(A::OrderPerformed{
        story.link,
        9,
        ctl::CommandRefused{ctl::CommandRefused::Why::not_possible, "rank 0 has ended"}});
    REQUIRE(story.said<ctl::WorkerAnswer>().size() == 2);
    CHECK_FALSE(story.said<ctl::WorkerAnswer>().back().is_done);
    CHECK(story.said<ctl::WorkerAnswer>().back().text == "rank 0 has ended");
}

TEST_CASE("an order for another round is not performed, and its sender learns why") {
    Story story(a_config(2));
    run_workers(story);
    story.hears(an_order(7, Order::What::signal, 3));
    CHECK(story.asked_for<A::PerformOrder>().empty());
    CHECK(
        story.said<ctl::WorkerAnswer>() ==
        std::vector{ctl::WorkerAnswer{
            7, Order::What::signal, {0, 0}, false, "no worker of round 3 runs on this node now"}});
    story.hears(a_stop());
    story.all_exit(by_sigterm);
    story.has_no_leftovers();
    story.hears(an_order(8, Order::What::signal));
    CHECK(story.asked_for<A::PerformOrder>().empty());
    CHECK(story.said<ctl::WorkerAnswer>().back().id == 8);
}

TEST_CASE("an order of an earlier connection is not answered on the next one") {
    Story story(a_config(2));
    run_workers(story);
    story.hears(an_order(7, Order::What::stack));
    const int before = story.link;
    story.loses_server();
    if (story.asked_for<A::Connect>().empty()) story.pass(1s);
    story.gets_through();
    story.hears(ctl::Resumed{});
    story.asked();
    // The next server begins with the same ids.
    story.hears(an_order(7, Order::What::stack));
    CHECK(story.asked_for<A::PerformOrder>().size() == 1);
    story.is(A::OrderPerformed{before, 7, ctl::RankStack{}});
    CHECK(story.said<ctl::WorkerAnswer>().empty());
    story.is(A::OrderPerformed{story.link, 7, ctl::RankStack{}});
    CHECK(story.said<ctl::WorkerAnswer>().size() == 1);
}

TEST_CASE("an agent looks at so many workers at the same time and no more, and still signals") {
    Story story(a_config(2));
    run_workers(story);
    for (std::uint64_t id = 1; id <= limits::max_open_looks; ++id)
        story.hears(an_order(id, Order::What::stack));
    CHECK(story.asked_for<A::PerformOrder>().size() == limits::max_open_looks);
    // An order that comes twice is one.
    story.hears(an_order(1, Order::What::stack));
    story.asked();
    story.hears(an_order(100, Order::What::stack));
    CHECK(story.asked_for<A::PerformOrder>().empty());
    CHECK(
        story.said<ctl::WorkerAnswer>().back().text ==
        "the agent is looking at 64 workers already");
    story.hears(an_order(101, Order::What::signal));
    CHECK(story.asked_for<A::PerformOrder>().size() == 1);
    story.is(A::OrderPerformed{story.link, 1, ctl::RankStack{}});
    story.hears(an_order(102, Order::What::stack));
    CHECK(story.asked_for<A::PerformOrder>().size() == 2);
}
