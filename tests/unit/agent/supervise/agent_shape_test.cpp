// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;
namespace ctl = ddprun::control;

namespace {

constexpr int older = 1;
constexpr int newer = 2;

AgentConfig in_units_of_two(int min_nodes, int max_nodes) {
    auto config = a_config();
    config.join.nodes = {min_nodes, max_nodes, 0, 2};
    config.join.node.topology = "row1/rack7";
    return config;
}

ctl::Node at_switch() {
    auto node = a_node();
    node.topology = "row1/rack7";
    return node;
}

/// A node that finds a server of this version.
struct Connected : test::MachineStory<Agent> {
    Connected(AgentConfig config, int version)
        : MachineStory(agent),
          agent(std::move(config), at_switch(), 20'009, random) {
        is(A::Began{});
        is(A::StoreOpened{first_store});
        is(A::LinkOpened{1, "10.0.0.2:40000", version});
    }

    Random random{7};
    Agent agent;

    ctl::Join join() {
        const auto sent = asked_for<A::Send>();
        REQUIRE(sent.size() == 1);
        return std::get<ctl::Join>(sent.front().message);
    }
};

}  // namespace

TEST_CASE("a server of version 2 gets the unit of nodes and the node's switch") {
    Connected node(in_units_of_two(2, 4), newer);
    const auto join = node.join();
    CHECK(join.nodes == ctl::NodeRange{2, 4, 0, 2});
    CHECK(join.node.topology == "row1/rack7");
}

TEST_CASE("an older server gets neither, where a fixed size is a multiple in any case") {
    Connected node(in_units_of_two(4, 4), older);
    const auto join = node.join();
    CHECK(join.nodes == ctl::NodeRange{4, 4, 0});
    CHECK(join.node.topology.empty());
}

TEST_CASE("a range of nodes with a unit is not left to an older server") {
    Connected node(in_units_of_two(2, 4), older);
    CHECK(node.asked_for<A::Send>().empty());
    const auto finished = node.asked_for<A::Finish>();
    REQUIRE(finished.size() == 1);
    CHECK(
        finished.front().report.reason.find(
            "--node-unit=2: the rendezvous server is of an older release") != std::string::npos);
}
