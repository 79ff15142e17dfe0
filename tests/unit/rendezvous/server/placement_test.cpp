// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/placement.hpp"

#include <doctest/doctest.h>

#include <chrono>

namespace ddprun::server {
namespace {

using namespace std::chrono_literals;
using Scope = ListenOn::Scope;

/// node1:29400 is 10.0.0.1; this machine has 10.0.0.1 and 127.0.0.1; two nodes.
PlacementFacts at_the_endpoint() {
    PlacementFacts facts;
    facts.endpoint = {"node1", 29400};
    facts.max_nodes = 2;
    facts.resolved = {"10.0.0.1"};
    facts.own = {"127.0.0.1", "10.0.0.1", "::1"};
    return facts;
}

PlacementFacts elsewhere() {
    auto facts = at_the_endpoint();
    facts.resolved = {"10.0.0.9"};
    return facts;
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("the node that the endpoint names serves on all interfaces") {
    CHECK(
        decide(at_the_endpoint()) ==
        Placement{Listen{{Scope::everywhere, "", 29400}, "node1 is this machine (10.0.0.1)"}});
}

TEST_CASE("a node that the endpoint does not name connects") {
    CHECK(decide(elsewhere()) == Placement{Connect{"node1 (10.0.0.9) is not this machine"}});
}

TEST_CASE("a name that does not resolve yet is waited for") {
    auto facts = at_the_endpoint();
    facts.resolved = {};
    facts.node_rank = 0;
    facts.unanswered_for = 60s;

    CHECK(decide(facts) == Placement{Connect{"node1 does not resolve to an address yet"}});
}

TEST_CASE("only some addresses here never serves and names is_host") {
    auto facts = at_the_endpoint();
    facts.resolved = {"10.0.0.1", "10.0.0.9"};
    facts.node_rank = 0;
    facts.unanswered_for = 60s;

    const auto decision = decide(facts);

    REQUIRE(std::holds_alternative<Connect>(decision));
    CHECK(contains(std::get<Connect>(decision).reason, "is_host=1"));
    CHECK(contains(std::get<Connect>(decision).reason, "10.0.0.1, 10.0.0.9"));
}

TEST_CASE("every loopback address is this machine") {
    auto facts = at_the_endpoint();
    facts.resolved = {"127.0.1.1", "10.0.0.1"};

    CHECK(std::holds_alternative<Listen>(decide(facts)));
}

TEST_CASE("is_host decides before any address is looked at") {
    auto far = elsewhere();
    far.is_host = true;
    auto near = at_the_endpoint();
    near.is_host = false;

    CHECK(
        decide(far) ==
        Placement{Listen{{Scope::everywhere, "", 29400}, "is_host says that this node serves"}});
    CHECK(decide(near) == Placement{Connect{"is_host says that another node serves"}});
}

TEST_CASE("with fixed places node rank 0 serves, whatever the address, and no other node") {
    for (auto facts : {at_the_endpoint(), elsewhere()}) {
        facts.is_static = true;
        facts.node_rank = 0;
        CHECK(
            decide(facts) ==
            Placement{Listen{
                {Scope::everywhere, "", 29400}, "node rank 0 serves, with static rendezvous"}});
        facts.node_rank = 1;
        CHECK(decide(facts) == Placement{Connect{"node rank 0 serves, with static rendezvous"}});
    }
}

TEST_CASE(
    "with fixed places a taken port is a refusal, even for one node: it is in its workers' "
    "environment") {
    auto facts = at_the_endpoint();
    facts.is_static = true;
    facts.node_rank = 0;
    facts.max_nodes = 1;
    facts.is_port_in_use = true;
    facts.held_by = "nginx (pid 7)";

    const auto decision = decide(facts);

    REQUIRE(std::holds_alternative<Refuse>(decision));
    CHECK(contains(std::get<Refuse>(decision).reason, "in use on this machine by nginx (pid 7)"));
    CHECK(contains(std::get<Refuse>(decision).reason, "--master-port"));
}

TEST_CASE("with fixed places a ddprun on the port is asked whose place it is") {
    auto facts = at_the_endpoint();
    facts.is_static = true;
    facts.node_rank = 0;
    facts.is_port_in_use = true;
    facts.held_by = "ddprun (pid 412)";

    CHECK(
        decide(facts) ==
        Placement{Connect{"port 29400 is in use on this machine by ddprun (pid "
                          "412), which is asked whether this node has its place"}});

    auto unanswered = facts;
    unanswered.unanswered_for = 2s;
    CHECK(std::holds_alternative<Refuse>(decide(unanswered)));
    facts.max_nodes = 1;
    CHECK(std::holds_alternative<Refuse>(decide(facts)));
}

TEST_CASE("node rank 0 serves when a foreign address gave no answer for two seconds") {
    auto facts = elsewhere();
    facts.node_rank = 0;

    facts.unanswered_for = 1999ms;
    CHECK(std::holds_alternative<Connect>(decide(facts)));
    facts.unanswered_for = 2s;
    CHECK(std::holds_alternative<Listen>(decide(facts)));
    facts.node_rank = 1;
    CHECK(std::holds_alternative<Connect>(decide(facts)));
    facts.node_rank.reset();
    CHECK(std::holds_alternative<Connect>(decide(facts)));
}

TEST_CASE("a port in use makes a client of the node") {
    auto facts = at_the_endpoint();
    facts.is_port_in_use = true;
    facts.held_by = "ddprun (pid 412)";

    CHECK(
        decide(facts) == Placement{Connect{"port 29400 is in use on this machine by ddprun (pid "
                                           "412), so its holder is taken for the job's server"}});
}

TEST_CASE("a job of one node that meets the daemon on its port is shown how to use it") {
    auto facts = at_the_endpoint();
    facts.max_nodes = 1;
    facts.is_port_in_use = true;
    facts.held_by = "ddprun-rendezvous (pid 412)";
    const std::string way = "--rdzv-backend=c10d --rdzv-conf=is_host=0";

    CHECK(contains(std::get<Listen>(decide(facts)).reason, way));
    facts.held_by = "ddprun (pid 412)";
    CHECK_FALSE(contains(std::get<Listen>(decide(facts)).reason, way));
    facts.held_by = "ddprun-rendezvous (pid 412)";
    facts.is_static = true;
    facts.node_rank = 0;
    CHECK(contains(std::get<Refuse>(decide(facts)).reason, way));
}

TEST_CASE("a port in use sends a job of one node to a free port") {
    auto facts = at_the_endpoint();
    facts.max_nodes = 1;
    facts.is_port_in_use = true;

    CHECK(
        decide(facts) == Placement{Listen{
                             {Scope::everywhere, "", 0},
                             "port 29400 is in use on this machine; a job of one node takes a "
                             "free port instead"}});
}

TEST_CASE("a port in use contradicts is_host") {
    auto facts = elsewhere();
    facts.is_host = true;
    facts.is_port_in_use = true;

    const auto decision = decide(facts);

    REQUIRE(std::holds_alternative<Refuse>(decision));
    CHECK(contains(std::get<Refuse>(decision).reason, "is_host"));
}

TEST_CASE("port 0 is for one node only") {
    auto facts = elsewhere();
    facts.endpoint = {"localhost", 0};

    CHECK(std::holds_alternative<Refuse>(decide(facts)));
    facts.max_nodes = 1;
    CHECK(
        decide(facts) ==
        Placement{
            Listen{{Scope::loopback, "", 0}, "a job of one node serves itself on a free port"}});
}

TEST_CASE("where a server listens follows from what was written") {
    CHECK(listen_on("node1", "", 1) == ListenOn{Scope::everywhere, "", 1});
    CHECK(listen_on("10.0.0.1", "", 1) == ListenOn{Scope::everywhere, "", 1});
    CHECK(listen_on("", "", 1) == ListenOn{Scope::everywhere, "", 1});
    CHECK(listen_on("localhost", "", 1) == ListenOn{Scope::loopback, "", 1});
    CHECK(listen_on("127.0.0.1", "", 1) == ListenOn{Scope::loopback, "", 1});
    CHECK(listen_on("::1", "", 1) == ListenOn{Scope::loopback, "", 1});
    CHECK(listen_on("127.0.0.2", "", 1) == ListenOn{Scope::address, "127.0.0.2", 1});
    CHECK(listen_on("localhost", "10.0.0.1", 1) == ListenOn{Scope::address, "10.0.0.1", 1});
    CHECK(listen_on("node1", "localhost", 1) == ListenOn{Scope::loopback, "", 1});
}

}  // namespace
}  // namespace ddprun::server
