// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/selection.hpp"

#include "launcher/ctl/agent_sockets.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher::ctl;

namespace {

FoundAgent an_agent(int pid, const std::string& run_id, const std::string& incarnation) {
    control::NodeView view;
    view.run_id = run_id;
    view.incarnation = incarnation;
    view.pid = pid;
    return {{"ddprunctl/1/1000/" + std::to_string(pid), pid}, 1000, view};
}

FoundAgent a_silent_agent(int pid) {
    return {{"ddprunctl/1/1000/" + std::to_string(pid), pid}, 1000, std::nullopt, "no answer"};
}

/// "10 11", or "3: reason".
std::string chosen(
    const FoundAgents& found,
    const std::optional<std::string>& run_id,
    std::optional<int> pid = std::nullopt) {
    const auto selection = select(found, run_id, pid);
    if (const auto* none = std::get_if<NotFound>(&selection))
        return std::to_string(none->exit_code) + ": " + none->reason;
    std::string pids;
    for (const auto& agent : std::get<std::vector<FoundAgent>>(selection))
        pids += (pids.empty() ? "" : " ") + std::to_string(agent.socket.pid);
    return pids;
}

}  // namespace

TEST_CASE("the kernel's table of local sockets shows where agents listen") {
    const std::string table =
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "ffff8881: 00000002 00000000 00010000 0001 01 31337 @ddprunctl/1/1000/4711\n"
        // One end of a connection to the socket.
        "ffff8882: 00000003 00000000 00000000 0001 03 31338 @ddprunctl/1/1000/4711\n"
        "ffff8883: 00000002 00000000 00010000 0001 01     9 @ddprunctl/1/0/50-1a2b3c4d\n"
        "ffff8884: 00000002 00000000 00010000 0001 01 31340 @ddprun/1/1000/4711\n"
        "ffff8885: 00000002 00000000 00010000 0001 01 31341 /run/@ddprunctl/1/1000/1\n"
        "ffff8886: 00000002 00000000 00010000 0001 01 31342 @ddprunctl/1/1000/\n"
        "ffff8887: 00000002 00000000 00010000 0001 01 31343 @ddprunctl/1/1000/0\n"
        "ffff8888: 00000002 00000000 00010000 0001 01 31344 @ddprunctl/1/1000/12x\n"
        "ffff8888: 00000002 00000000 00010000 0001 01 31344 @ddprunctl/1/x/12\n"
        "ffff8889: 00000002 00000000 00010000 0001 01 31345\n"
        "@ddprunctl/1/1000/7\n\n";
    CHECK(
        agent_sockets(table) ==
        std::vector<AgentSocket>{
            {"ddprunctl/1/0/50-1a2b3c4d", 50, 0}, {"ddprunctl/1/1000/4711", 4711, 1000}});
    CHECK(agent_sockets("").empty());
}

TEST_CASE("a run id means all nodes of its job on this machine, and nothing that is not clear") {
    const FoundAgents two_jobs{
        {an_agent(11, "a", "i1"), an_agent(10, "a", "i1"), an_agent(12, "b", "i2")}, {}};
    CHECK(chosen(two_jobs, "a") == "10 11");
    CHECK(chosen(two_jobs, "b") == "12");
    CHECK(chosen(two_jobs, std::nullopt, 12) == "12");
    CHECK(chosen(two_jobs, "a", 11) == "11");
    CHECK(
        chosen(two_jobs, "c") ==
        "3: no job 'c' of this user on this machine; there are: a (pid 11), a (pid 10), b (pid "
        "12)");
    CHECK(
        chosen(two_jobs, std::nullopt) ==
        "2: several jobs are meant: a (pid 10), a (pid 11), b (pid 12); "
        "name one by its run id or with --pid");
    CHECK(
        chosen(two_jobs, "b", 11) ==
        "3: no job 'b' with pid 11 of this user on this machine; there are: a (pid 11), a (pid "
        "10), b (pid 12)");

    const FoundAgents same_id{{an_agent(10, "a", "i1"), an_agent(11, "a", "i2")}, {}};
    CHECK(
        chosen(same_id, "a") ==
        "2: several jobs are meant: a (pid 10), a (pid 11); name one with --pid");
    CHECK(chosen({{an_agent(10, "a", "i1")}, {}}, std::nullopt) == "10");
    CHECK(chosen({{an_agent(10, "a", "i1")}, {}}, "").starts_with("3: no job '' of this user"));
}

TEST_CASE("where no agent is meant the reason is the likely one") {
    CHECK(chosen({}, "a") == "3: no job 'a' of this user on this machine");
    CHECK(chosen({}, std::nullopt) == "3: no job of this user on this machine");
    CHECK(chosen({}, std::nullopt, 7) == "3: no ddprun of pid 7 of this user on this machine");
    const std::string of_others =
        "; other users have jobs here (pid 10, 11), which only they and root may control";
    CHECK(chosen({{}, {10, 11}}, "a") == "3: no job 'a' of this user on this machine" + of_others);
    // Only a process id can mean another user's agent.
    CHECK(
        chosen({{}, {10, 11}}, std::nullopt, 11) ==
        "4: no ddprun of pid 11 of this user on this machine" + of_others);
    CHECK(chosen({{}, {10, 11}}, std::nullopt, 12).starts_with("3: "));
    const FoundAgents one_hangs{{an_agent(11, "b", "i1"), a_silent_agent(10)}, {}};
    CHECK(
        chosen(one_hangs, "a") ==
        "3: no job 'a' of this user on this machine; there are: b (pid 11); pid 10 does not "
        "answer: no answer");
    CHECK(chosen(one_hangs, std::nullopt, 10).starts_with("5: "));
    CHECK(chosen(one_hangs, std::nullopt, 12).starts_with("3: "));
    // Foreign names cannot move the cursor.
    CHECK(chosen({}, "a\nb\t") == "3: no job 'a b ' of this user on this machine");
    CHECK(chosen({}, "\x1B[2J") == "3: no job '?[2J' of this user on this machine");
}

TEST_CASE("a job of another user is another job, whatever it claims to be") {
    auto own = an_agent(10, "a", "i1");
    auto strange = an_agent(9, "a", "i1");
    strange.user = 1001;
    CHECK(chosen({{own, strange}, {}}, "a").starts_with("2: several jobs are meant"));
    CHECK(chosen({{own, strange}, {}}, "a", 10) == "10");
}

TEST_CASE("a node that no server has welcomed yet is of the job that it waits for") {
    const auto at = [](int pid, const std::string& incarnation, const std::string& endpoint) {
        auto agent = an_agent(pid, "a", incarnation);
        agent.view->endpoint = endpoint;
        return agent;
    };
    const auto of_other_user = [&] {
        auto agent = at(12, "", "node1:1");
        agent.user = 1001;
        return agent;
    };
    const std::vector<std::tuple<FoundAgent, FoundAgent, std::string>> cases{
        {at(10, "i1", "node1:1"), at(12, "", "node1:1"), "12 10"},
        {at(10, "i1", "node1:1"), at(12, "", ""), "12 10"},
        // The first one hosts the server.
        {at(10, "i1", "127.0.0.1:1"), at(12, "", "node1:1"), "12 10"},
        {at(10, "i1", "127.0.0.1:1"), at(12, "", "node1:2"), "2: "},
        {at(10, "i1", "node1:1"), at(12, "", "node2:1"), "2: "},
        {at(10, "i1", "node1:1"), of_other_user(), "2: "},
        {at(10, "", "node1:1"), at(12, "", "node1:1"), "10 12"},
        {at(10, "", ""), at(12, "", "node1:1"), "10 12"},
        {at(10, "", "node1:1"), at(12, "", "node2:1"), "2: "},
    };
    for (const auto& [one, other, pids] : cases) {
        // CAPTURE takes no structured binding under clang.
        const auto& first = one.view->endpoint;
        const auto& second = other.view->endpoint;
        CAPTURE(first);
        CAPTURE(second);
        CHECK(chosen({{one, other}, {}}, "a").starts_with(pids));
    }
}

TEST_CASE("nodes that the server has are known from those that it has not") {
    auto cut_off = an_agent(10, "a", "i1");
    auto connected = an_agent(11, "a", "i1");
    connected.view->is_connected = true;
    const auto plan = by_connection({cut_off, connected});
    REQUIRE(plan.connected.size() == 1);
    CHECK(plan.connected.front().socket.pid == 11);
    REQUIRE(plan.cut_off.size() == 1);
    CHECK(plan.cut_off.front().socket.pid == 10);
}

TEST_CASE("a signal is given to the nodes that have its ranks, or to those that have workers") {
    const auto with_ranks = [](int pid, int first, int count) {
        auto agent = an_agent(pid, "a", "i1");
        agent.view->assignment.emplace();
        agent.view->assignment->rank_base = first;
        agent.view->worker_count = count;
        return agent;
    };
    constexpr int largest = std::numeric_limits<int>::max();
    const std::vector<FoundAgent> agents{
        an_agent(9, "a", ""),
        with_ranks(10, 0, 4),
        with_ranks(11, 4, 4),
        with_ranks(12, largest, largest)};
    const auto meant = [&](int first, int last) {
        std::string pids;
        for (const auto& agent : agents_to_signal(agents, control::RankRange{first, last}))
            pids += std::to_string(agent.socket.pid) + ' ';
        return pids;
    };
    CHECK(agents_to_signal(agents, std::nullopt).size() == 3);
    CHECK(meant(3, 3) == "10 ");
    CHECK(meant(4, 4) == "11 ");
    CHECK(meant(3, 4) == "10 11 ");
    CHECK(meant(0, largest) == "10 11 12 ");
    CHECK(meant(8, 9) == "10 ");
    CHECK(meant(largest, largest) == "12 ");
    CHECK(agents_to_signal({an_agent(9, "a", "")}, std::nullopt).size() == 1);
}

TEST_CASE("the ranks of the nodes here are found in their order") {
    const auto of_node = [](int first, int count) {
        auto agent = an_agent(first + 1, "job", "1.0");
        agent.view->worker_count = count;
        agent.view->assignment.emplace();
        agent.view->assignment->rank_base = first;
        return agent;
    };
    const std::vector<FoundAgent> agents{of_node(4, 2), an_agent(9, "job", "1.0"), of_node(0, 2)};

    CHECK(
        ranks_of(agents, std::nullopt, std::nullopt) ==
        std::vector<RankPlace>{{0, 2}, {1, 2}, {4, 0}, {5, 0}});
    CHECK(ranks_of(agents, 1, 4) == std::vector<RankPlace>{{1, 2}, {4, 0}});
    CHECK(ranks_of(agents, 2, 3).empty());
    CHECK(ranks_of(agents, 0, std::numeric_limits<int>::max()).size() == 4);
}
