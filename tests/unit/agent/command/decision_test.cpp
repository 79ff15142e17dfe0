// SPDX-License-Identifier: Apache-2.0
#include "agent/command/decision.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::command;
namespace health = ddprun::agent::health;
using namespace std::chrono_literals;

namespace {

/// Node 1 of a job of two, with ranks 4 to 7 of 8.
control::NodeView a_view() {
    control::NodeView view;
    view.run_id = "job";
    view.host = "node2";
    view.worker_count = 4;
    view.assignment.emplace();
    view.assignment->rank_base = 4;
    view.assignment->world_size = 8;
    return view;
}

using Fate = ddprun::agent::Agent::Fate;
constexpr NodeFacts running{Fate::open, true, true, 30s, 2};
constexpr NodeFacts ending{Fate::job_ends, true, true, 30s, 2};
constexpr NodeFacts under_older_server{Fate::open, true, true, 30s, 1};
constexpr NodeFacts leaving{Fate::node_ends, true, true, 30s, 2};
constexpr NodeFacts cut_off{Fate::open, true, false, 30s, 2};
constexpr NodeFacts idle{Fate::open, false, true, 30s, 2};

struct Case {
    control::Command command;
    NodeFacts facts;
    std::string reply;
    std::variant<std::monostate, StopOrder, SignalOrder, StackOrder, PassOn> order = {};
};

std::string done(const std::string& text) {
    return "command_done \"" + text + '"';
}

std::string refused(const std::string& reason) {
    return "command_refused not_possible \"" + reason + '"';
}

}  // namespace

TEST_CASE("what an agent does about a command") {
    using Stop = control::StopJob;
    using Signal = control::SignalWorkers;
    using Stack = control::ShowStack;
    using Drain = control::DrainNodes;
    using Undrain = control::UndrainNodes;
    using Resize = control::ResizeJob;
    const std::vector<Case> cases{
        {Stop{}, running, done("its workers have 30 s to end"), StopOrder{}},
        {Stop{}, idle, done("its workers have 30 s to end"), StopOrder{}},
        {Stop{5s}, running, done("its workers have 5 s to end"), StopOrder{5s}},
        {Stop{0s}, running, done("its workers have 0 s to end"), StopOrder{0s}},
        {Stop{30s}, running, done("its workers have 30 s to end"), StopOrder{30s}},
        {Stop{31s},
         running,
         refused("--grace=31 s is longer than the job's own (30 s, its --shutdown-timeout)")},
        {Stop{}, ending, done("it is stopping already")},
        {Stop{31s}, ending, done("it is stopping already")},
        {Stop{},
         leaving,
         refused("this node has left the job and cannot end it any more; give the command at "
                 "another node")},
        {Stop{},
         cut_off,
         done("its workers have 30 s to end; this node has no connection to the rendezvous "
              "server: others may go on"),
         StopOrder{}},
        {Signal{SIGUSR1},
         running,
         done("SIGUSR1 to ranks 4 to 7 on node2"),
         SignalOrder{SIGUSR1, {0, 1, 2, 3}}},
        {Signal{SIGUSR1, 5},
         running,
         done("SIGUSR1 to rank 5 on node2"),
         SignalOrder{SIGUSR1, {1}}},
        {Signal{SIGUSR1, 5, 6},
         running,
         done("SIGUSR1 to ranks 5 to 6 on node2"),
         SignalOrder{SIGUSR1, {1, 2}}},
        // Of ranks of several nodes a node signals its own.
        {Signal{SIGUSR1, 0, 4},
         running,
         done("SIGUSR1 to rank 4 on node2"),
         SignalOrder{SIGUSR1, {0}}},
        {Signal{SIGUSR1, 7, 99},
         running,
         done("SIGUSR1 to rank 7 on node2"),
         SignalOrder{SIGUSR1, {3}}},
        {Signal{SIGUSR1, 0, 3},
         running,
         refused("ranks 0 to 3 are on another node: this one has ranks 4 to 7")},
        {Signal{SIGUSR1, 8, 9}, running, refused("there is no rank 8: the job has ranks 0 to 7")},
        {Signal{SIGKILL, 7},
         cut_off,
         done("SIGKILL to rank 7 on node2"),
         SignalOrder{SIGKILL, {3}}},
        {Signal{SIGUSR1, 3},
         running,
         refused("rank 3 is on another node: this one has ranks 4 to 7")},
        {Signal{SIGUSR1, 8}, running, refused("there is no rank 8: the job has ranks 0 to 7")},
        {Signal{SIGUSR1}, idle, refused("no worker runs on this node now")},
        {Signal{SIGUSR1, 5}, idle, refused("no worker runs on this node now")},
        {Stack{5}, running, "", StackOrder{5, 1}},
        {Stack{4}, cut_off, "", StackOrder{4, 0}},
        {Stack{3}, running, refused("rank 3 is on another node: this one has ranks 4 to 7")},
        {Stack{8}, running, refused("there is no rank 8: the job has ranks 0 to 7")},
        {Stack{5}, idle, refused("no worker runs on this node now")},
        {Drain{{"node5"}}, running, "", PassOn{}},
        {Drain{{"node5"}}, leaving, "", PassOn{}},
        {Undrain{{"node5"}}, idle, "", PassOn{}},
        {Resize{{1, 3}}, running, "", PassOn{}},
        {Resize{{1, 3}}, idle, "", PassOn{}},
        {Resize{{1, 3}}, ending, refused("the job is ending")},
        {Resize{{1, 3}},
         under_older_server,
         refused("the rendezvous server is of an older release of ddprun, which changes the size "
                 "of no job")},
        {Drain{{"node5"}}, ending, refused("the job is ending")},
        {Drain{{"node5"}},
         cut_off,
         refused("this node has no connection to the rendezvous server now; give the command at "
                 "another node")},
        {Undrain{{"node5"}},
         under_older_server,
         refused("the rendezvous server is of an older release of ddprun, which drains no node; "
                 "end the node by SIGTERM to its ddprun")},
    };
    for (const auto& one : cases) {
        CAPTURE(control::describe(one.command));
        const auto decision = decide(one.command, a_view(), one.facts);
        CHECK((decision.reply ? control::describe(*decision.reply) : "") == one.reply);
        CHECK(decision.order == one.order);
    }
}

TEST_CASE("the answer to a signal names the ranks that it has reached, and no others") {
    const std::vector<std::pair<std::vector<int>, std::string>> cases{
        {{0, 1, 2, 3}, done("SIGUSR1 to ranks 4 to 7 on node2")},
        {{2}, done("SIGUSR1 to rank 6 on node2")},
        {{1, 2}, done("SIGUSR1 to ranks 5 to 6 on node2")},
        {{0, 1, 3}, done("SIGUSR1 to ranks 4, 5, 7 on node2")},
        {{}, refused("no worker that is meant runs on node2 any more")},
    };
    for (const auto& [reached, reply] : cases)
        CHECK(control::describe(reply_to_signal(SIGUSR1, reached, a_view())) == reply);
}

TEST_CASE("a question gets the view and orders nothing, also of a node without a round") {
    auto view = a_view();
    view.assignment.reset();
    const auto decision = decide(control::ShowNode{}, view, idle);
    CHECK(decision.reply == control::CommandReply{view});
    CHECK(std::holds_alternative<std::monostate>(decision.order));
}

TEST_CASE("a report names the user, the process and the host of a command") {
    CHECK(
        describe_sender({4711, 1000}, "alice", "node1") ==
        "ddprunctl (user alice, pid 4711 on node1)");
    CHECK(describe_sender({0, 1000}, "", "node1") == "ddprunctl (user 1000 on node1)");
}

TEST_CASE("the answer about a stack has what was seen, or that there is no worker any more") {
    health::Sample sample;
    sample.pid = 4711;
    sample.state = 'S';
    sample.no_frames = "no Python interpreter";
    const health::Site site{control::Activity::blocked, "read(2)", "thread 4711: read(2), state S"};

    CHECK(
        reply_to_stack(5, sample, site) == control::CommandReply{control::RankStack{
                                               5,
                                               4711,
                                               "blocked",
                                               "read(2)",
                                               "thread 4711: read(2), state S",
                                               "no Python stack: no Python interpreter"}});
    CHECK(
        control::describe(reply_to_stack(5, health::Sample{}, health::Site{})) ==
        refused("rank 5 has ended"));
}
