// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

const Nonce another_token = nonce_of("no token");

void speaks_two(control::Join& join) {
    join.versions = {1, 2};
}

/// A caller that knows everything of the node but its token.
void resume_with(Story& story, const std::string& node, std::optional<Nonce> token) {
    story.resume(node, NodeState::running, [&](control::Resume& resume) {
        resume.join.versions = {1};
        resume.token = token;
    });
}

bool has(const Lines& lines, const std::string& words) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(words) != std::string::npos;
    });
}

}  // namespace

TEST_CASE("a node gets a token of its own, if it speaks version 2") {
    Story story("3", 3, speaks_two);
    story.join("a");
    story.join("b");
    story.join("c", [](control::Join& join) { join.versions = {}; });
    REQUIRE(story.token("a").has_value());
    REQUIRE(story.token("b").has_value());
    CHECK(story.token("a") != story.token("b"));
    CHECK_FALSE(story.token("c").has_value());
}

TEST_CASE("nonce and incarnation without the token take over no member") {
    Story story("2", 3, speaks_two);
    story.run("a b");
    const auto connection = story.connection("b");

    SUBCASE("none") {
        resume_with(story, "b", std::nullopt);
    }
    SUBCASE("another") {
        resume_with(story, "b", another_token);
    }

    const Lines turned_away{
        "b lost \"the job went on without this node\"", "b closed: resumed after it was lost"};
    CHECK(story.output() == turned_away);
    // The member speaks on its own connection as before.
    story.post(Coordinator::Received{connection, control::Heartbeat{1}});
    CHECK(story.status().state == "running");
    story.post(Coordinator::Received{connection, control::Succeeded{0}});
    story.succeeded("a");
    CHECK(story.status().state == "succeeded");
}

TEST_CASE("a node that shows its token resumes") {
    Story story("2", 3, speaks_two);
    story.run("a b");
    story.drop("b");
    story.output();
    story.resume("b", NodeState::running);
    CHECK(has(story.output(), "b resumed"));
}

TEST_CASE("a join with a member's nonce takes over nothing, once the member has its welcome") {
    Story story("2", 3, speaks_two);
    story.run("a b");
    story.join("b");
    const auto lines = story.output();
    CHECK(has(lines, "b refused"));
    CHECK_FALSE(has(lines, "welcome"));
    CHECK(story.status().state == "running");
}

TEST_CASE("a node whose welcome was lost joins again, and gets the same token") {
    Story story("2", 3, speaks_two);
    story.join("a");
    const auto token = story.token("a");
    story.join("a");
    CHECK(story.token("a") == token);
}

TEST_CASE("after a restart of the server the first token of a node counts") {
    Story story("2", 3, speaks_two);
    story.run("a b");
    story.restart_server();
    story.resume("a", NodeState::running);
    story.resume("b", NodeState::running);
    story.output();
    resume_with(story, "b", another_token);
    CHECK(has(story.output(), "b lost"));
    CHECK(story.status().state == "running");
}

TEST_CASE("the text of a failed worker is for members that show their token") {
    Story story("1", 0, speaks_two);
    story.run("a");
    story.failed_with(
        "a", 0, 1ms, [](control::WorkerFailure& failure) { failure.message = "the message"; });
    story.ready("a");
    REQUIRE(story.whole_result("a").root_cause->worker->message == "the message");
    story.drop("a");
    resume_with(story, "a", another_token);
    CHECK(story.whole_result("a").root_cause->worker->message.empty());
    resume_with(story, "a", story.token("a"));
    CHECK(story.whole_result("a").root_cause->worker->message == "the message");
}
