// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

/// The tenants whose jobs a reader sees.
Lines tenants_seen(Story& server, const Scope& scope) {
    Lines tenants;
    for (const auto& job :
         server.coordinator().status_turn(Instant{}, {scope, {}, 0, 0, 100}).jobs) {
        CHECK(job.run_id == "job");
        CHECK(job.is_newest);
        tenants.push_back(job.tenant);
    }
    return tenants;
}

}  // namespace

TEST_CASE("a run id of two tenants names two jobs, and neither shows in the other's pages") {
    Story server{"2"};
    server.is_of_tenant("a", "blue");
    server.is_of_tenant("d", "blue");
    server.is_of_tenant("b", "red");
    server.is_of_tenant("c", "red");
    server.join("a");
    server.join("b");
    CHECK(tenants_seen(server, Scope::of_tenant("blue")) == Lines{"blue"});
    CHECK(tenants_seen(server, Scope::of_tenant("red")) == Lines{"red"});
    CHECK(tenants_seen(server, Scope::of_tenant("green")).empty());
    CHECK(tenants_seen(server, Scope::everything()) == Lines{"blue", "red"});

    server.join("c");
    server.join("d");
    CHECK(server.assignment("a").neighbours[0].nonce == nonce_of("d"));
    CHECK(server.assignment("b").neighbours[0].nonce == nonce_of("c"));
    server.started("a b c d");
    server.output();
    server.succeeded("a d");
    CHECK(server.result("a") == "result succeeded exit_code=0");
    CHECK(server.result("b").empty());
}

TEST_CASE("a newer incarnation of one tenant ends no job of another") {
    Story server{"1"};
    server.is_of_tenant("a", "blue");
    server.is_of_tenant("b", "red");
    server.join("a", [](control::Join& join) { join.incarnation = "1"; });
    server.output();
    server.join("b", [](control::Join& join) { join.incarnation = "2"; });
    for (const auto& line : server.output())
        CHECK_FALSE(line.starts_with("a "));
}

TEST_CASE("a node of another tenant takes up no job, although it has a member's name") {
    Story server{"1"};
    server.is_of_tenant("a", "blue");
    server.join("a");
    const auto incarnation = server.status().incarnation;
    server.is_of_tenant("a", "red");
    server.resume("a", control::NodeState::running, [&](control::Resume& resume) {
        resume.incarnation = incarnation;
    });
    // It is at most a job of its own that is rebuilt.
    CHECK(tenants_seen(server, Scope::of_tenant("blue")) == Lines{"blue"});
    CHECK(server.coordinator().status(Instant{}).front().node_count == 1);
    CHECK(tenants_seen(server, Scope::everything()).size() == 2);
}
