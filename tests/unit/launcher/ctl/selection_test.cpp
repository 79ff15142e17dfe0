// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/selection.hpp"

#include "launcher/ctl/agent_sockets.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
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
    const FoundAgents& found, const std::string& run_id, std::optional<int> pid = std::nullopt) {
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
        // One end of a connection to it.
        "ffff8882: 00000003 00000000 00000000 0001 03 31338 @ddprunctl/1/1000/4711\n"
        "ffff8883: 00000002 00000000 00010000 0001 01     9 @ddprunctl/1/0/50-1a2b3c4d\n"
        "ffff8884: 00000002 00000000 00010000 0001 01 31340 @ddprun/1/1000/4711\n"
        "ffff8885: 00000002 00000000 00010000 0001 01 31341 /run/@ddprunctl/1/1000/1\n"
        "ffff8886: 00000002 00000000 00010000 0001 01 31342 @ddprunctl/1/1000/\n"
        "ffff8887: 00000002 00000000 00010000 0001 01 31343 @ddprunctl/1/1000/0\n"
        "ffff8888: 00000002 00000000 00010000 0001 01 31344 @ddprunctl/1/1000/12x\n"
        "ffff8889: 00000002 00000000 00010000 0001 01 31345\n"
        "@ddprunctl/1/1000/7\n\n";
    CHECK(
        agent_sockets(table) ==
        std::vector<AgentSocket>{
            {"ddprunctl/1/0/50-1a2b3c4d", 50}, {"ddprunctl/1/1000/4711", 4711}});
    CHECK(agent_sockets("").empty());
}

TEST_CASE("a run id means all nodes of its job on this machine, and nothing that is not clear") {
    const FoundAgents two_jobs{
        {an_agent(11, "a", "i1"), an_agent(10, "a", "i1"), an_agent(12, "b", "i2")}, {}};
    CHECK(chosen(two_jobs, "a") == "10 11");
    CHECK(chosen(two_jobs, "b") == "12");
    CHECK(chosen(two_jobs, "", 12) == "12");
    CHECK(chosen(two_jobs, "a", 11) == "11");
    CHECK(
        chosen(two_jobs, "c") ==
        "3: no job 'c' of this user on this machine; there are: a (pid 11), a (pid 10), b (pid "
        "12)");
    CHECK(
        chosen(two_jobs, "") ==
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
    const FoundAgents not_welcomed{{an_agent(10, "a", ""), an_agent(11, "a", "")}, {}};
    CHECK(chosen(not_welcomed, "a").starts_with("2: several jobs are meant"));
    CHECK(chosen({{an_agent(10, "a", "i1")}, {}}, "") == "10");
}

TEST_CASE("where no agent is meant the reason is the likely one") {
    CHECK(chosen({}, "a") == "3: no job 'a' of this user on this machine");
    CHECK(chosen({}, "") == "3: no job of this user on this machine");
    CHECK(chosen({}, "", 7) == "3: no ddprun of pid 7 of this user on this machine");
    CHECK(
        chosen({{}, {10, 11}}, "a") ==
        "4: no job 'a' of this user on this machine; other users have jobs here (pid 10, 11), "
        "which only they and root may control");
    CHECK(chosen({{}, {10, 11}}, "", 11).starts_with("4: "));
    CHECK(chosen({{}, {10, 11}}, "", 12).starts_with("3: "));
    CHECK(
        chosen({{a_silent_agent(10)}, {}}, "a") ==
        "5: no job 'a' of this user on this machine; pid 10 does not answer: no answer");
    // Names of others move no cursor.
    CHECK(chosen({}, "\x1B[2J") == "3: no job '?[2J' of this user on this machine");
}
