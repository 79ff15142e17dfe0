// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;

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

TEST_CASE("a tenant has so many nodes in all its jobs, also after the server was started again") {
    Story server{"1:3"};
    server.bounds_tenants(2);
    for (const std::string node : {"a", "b", "c"})
        server.is_of_tenant(node, "blue");
    server.is_of_tenant("d", "red");
    const std::string full =
        "this server has 2 nodes of tenant 'blue' already, and keeps no more of one tenant";
    server.join("a");
    server.join("b", [](control::Join& join) { join.run_id = "other"; });
    server.output();
    server.join("c");
    CHECK(server.output() == Lines{"c refused \"" + full + "\"", "c closed: refused: " + full});
    server.join("c", [](control::Join& join) { join.run_id = "third"; });
    CHECK(server.output().front() == "c refused \"" + full + "\"");
    server.join("d");
    CHECK(server.output().front().starts_with("d welcome"));
    // One that is there joins again, and the place of one that is gone is free.
    server.join("a");
    CHECK(server.output().back().starts_with("a welcome"));
    server.leave("b", SIGTERM);
    server.drop("b");
    server.output();
    server.join("c");
    CHECK(server.output().front().starts_with("c welcome"));

    server.restart_server();
    for (const std::string node : {"a", "c", "b"})
        server.resume(node, control::NodeState::ready);
    const auto lines = server.output();
    CHECK(std::count(lines.begin(), lines.end(), "a resumed") == 1);
    CHECK(std::count(lines.begin(), lines.end(), "c resumed") == 1);
    CHECK(std::count(lines.begin(), lines.end(), "b resumed") == 0);
    // It goes on trying.
    CHECK(std::count(lines.begin(), lines.end(), "b closed: " + full) == 1);
}

TEST_CASE("the jobs of one tenant that have ended displace none of another's") {
    Story server{"1"};
    const auto end_job = [&](const std::string& node, const std::string& tenant) {
        server.is_of_tenant(node, tenant);
        server.join(node);
        server.started(node);
        server.succeeded(node);
        server.drop(node);
    };
    end_job("a", "blue");
    for (std::size_t i = 0; i <= limits::max_ended_jobs_per_tenant; ++i) {
        if (i % (limits::max_jobs_per_tenant / 2) == 0) server.pass(2h);
        end_job("r" + std::to_string(i), "red");
    }
    server.pass(2h);
    CHECK(tenants_seen(server, Scope::everything()).empty());
    server.output();
    server.resume("a", control::NodeState::running);
    CHECK(server.output().front() == "a lost \"the job ended long ago\"");
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
    server.is_of_tenant("a", "red");
    server.resume("a", control::NodeState::running);
    // It is at most a job of its own that is rebuilt.
    CHECK(tenants_seen(server, Scope::of_tenant("blue")) == Lines{"blue"});
    CHECK(server.coordinator().status(Instant{}).front().node_count == 1);
    CHECK(tenants_seen(server, Scope::everything()).size() == 2);
}
