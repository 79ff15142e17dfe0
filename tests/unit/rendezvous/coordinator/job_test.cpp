// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <signal.h>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

/// A job in each of its states, seen with node `b`: a member of the round where there is one.
/// Node `s` stands by.
Story job_that_is(const std::string& state) {
    Story job{"2:2+1"};
    job.join("a");
    if (state == "forming") {
        job.say("a", control::Heartbeat{1});
        job.output();
        return job;
    }
    job.join("b");
    job.join("s");
    job.started("a b");
    if (state == "draining") job.failed("a");
    if (state == "over") job.succeeded("a b");
    if (state == "recovering") {
        job.restart_server();
        job.resume("b", NodeState::running);
    }
    job.output();
    return job;
}

struct Happening {
    std::string name;
    std::function<void(Story&, const std::string& node)> apply;
};

const std::vector<Happening> happenings{
    {"joined", [](Story& job, auto&) { job.join("n"); }},
    {"joined again", [](Story& job, auto& node) { job.join(node); }},
    {"resumed running", [](Story& job, auto& node) { job.resume(node, NodeState::running); }},
    {"resumed stopping", [](Story& job, auto& node) { job.resume(node, NodeState::stopping); }},
    {"resumed ready", [](Story& job, auto& node) { job.resume(node, NodeState::ready); }},
    {"resumed succeeded", [](Story& job, auto& node) { job.resume(node, NodeState::succeeded); }},
    {"ready", [](Story& job, auto& node) { job.ready(node); }},
    {"started", [](Story& job, auto& node) { job.started(node); }},
    {"succeeded", [](Story& job, auto& node) { job.succeeded(node); }},
    {"failed", [](Story& job, auto& node) { job.failed(node); }},
    {"failed, another round", [](Story& job, auto& node) { job.failed(node, 9); }},
    {"heartbeat", [](Story& job, auto& node) { job.say(node, control::Heartbeat{7}); }},
    {"neighbour", [](Story& job, auto& node) { job.say(node, control::NeighbourHeard{}); }},
    {"notice",
     [](Story& job, auto& node) {
         job.say(node, control::Notice{"why", SIGTERM, 30s});
     }},
    {"save report", [](Story& job, auto& node) { job.say(node, control::SaveReport{}); }},
    {"drain",
     [](Story& job, auto& node) {
         job.say(node, control::Drain{1, {"b"}, true, "ddprunctl"});
     }},
    {"undrain",
     [](Story& job, auto& node) {
         job.say(node, control::Undrain{1, {"b"}, "ddprunctl"});
     }},
    {"resize",
     [](Story& job, auto& node) {
         job.say(node, control::Resize{1, {1, 1}, "ddprunctl"});
     }},
    {"leave", [](Story& job, auto& node) { job.leave(node, SIGTERM); }},
    {"leave for all", [](Story& job, auto& node) { job.leave(node, SIGINT); }},
    {"dropped", [](Story& job, auto& node) { job.drop(node); }},
    {"interrupted", [](Story& job, auto&) { job.interrupt(SIGTERM); }},
    {"deadline, not ours", [](Story& job, auto&) { job.post(Coordinator::DeadlinePassed{}); }},
};

/// "b stop, draining": the receiver and kind of each message, and the state after it.
std::string outcome(const std::string& state, const std::string& node, const Happening& happening) {
    auto job = job_that_is(state);
    happening.apply(job, node);
    std::string text;
    for (const auto& line : job.output()) {
        const auto parts = words(line);
        if (parts[0].ends_with(':')) continue;  // the job's own state, below
        text += parts[0] + " " + parts[1] + ", ";
    }
    const auto jobs = job.coordinator().status(Instant{});
    return text + (jobs.empty() ? "forgotten" : jobs.back().state);
}

Lines cells(const std::string& state, const std::string& node) {
    Lines lines;
    for (const auto& happening : happenings)
        lines.push_back(happening.name + ": " + outcome(state, node, happening));
    return lines;
}

}  // namespace

TEST_CASE("every event has its answer while a job forms") {
    CHECK(
        cells("forming", "a") == Lines{
                                     "joined: n welcome, a assignment, n assignment, running",
                                     "joined again: a closed:, a welcome, forming",
                                     "resumed running: a closed:, a resumed, forming",
                                     "resumed stopping: a closed:, a resumed, forming",
                                     "resumed ready: a closed:, a resumed, forming",
                                     "resumed succeeded: a closed:, a resumed, forming",
                                     "ready: forming",
                                     "started: forming",
                                     "succeeded: forming",
                                     "failed: forming",
                                     "failed, another round: forming",
                                     "heartbeat: forming",
                                     "neighbour: forming",
                                     "notice: forming",
                                     "save report: forming",
                                     "drain: a drain_answer, forming",
                                     "undrain: a drain_answer, forming",
                                     "resize: a drain_answer, forming",
                                     "leave: a result, cancelled",
                                     "leave for all: a result, cancelled",
                                     "dropped: forming",
                                     "interrupted: a result, cancelled",
                                     "deadline, not ours: forming"});
}

TEST_CASE("every event of a member has its answer while a round runs") {
    CHECK(
        cells("running", "b") ==
        Lines{
            "joined: n welcome, n standby, running",
            "joined again: b closed:, b welcome, b assignment, running",
            "resumed running: b closed:, b resumed, b assignment, running",
            "resumed stopping: b closed:, b resumed, b assignment, running",
            "resumed ready: b closed:, b resumed, b assignment, a stop, draining",
            "resumed succeeded: b closed:, b resumed, b assignment, running",
            "ready: a stop, draining",
            "started: running",
            "succeeded: running",
            "failed: a stop, b stop, draining",
            "failed, another round: running",
            "heartbeat: running",
            "neighbour: running",
            "notice: b notice_over, running",
            "save report: running",
            "drain: b drain_answer, running",
            "undrain: b drain_answer, running",
            "resize: b drain_answer, running",
            "leave: a stop, b stop, draining",
            "leave for all: a stop, b stop, draining",
            "dropped: running",
            "interrupted: a stop, b stop, draining",
            "deadline, not ours: running"});
}

TEST_CASE("every event of a member has its answer while a round drains") {
    CHECK(
        cells("draining", "b") == Lines{
                                      "joined: n welcome, n standby, draining",
                                      "joined again: b closed:, b welcome, b standby, draining",
                                      "resumed running: b closed:, b resumed, b stop, draining",
                                      "resumed stopping: b closed:, b resumed, b stop, draining",
                                      "resumed ready: b closed:, b resumed, draining",
                                      "resumed succeeded: b closed:, b resumed, b stop, draining",
                                      "ready: draining",
                                      "started: draining",
                                      "succeeded: draining",
                                      "failed: draining",
                                      "failed, another round: draining",
                                      "heartbeat: draining",
                                      "neighbour: draining",
                                      "notice: draining",
                                      "save report: draining",
                                      "drain: b drain_answer, draining",
                                      "undrain: b drain_answer, draining",
                                      "resize: b drain_answer, draining",
                                      "leave: draining",
                                      "leave for all: draining",
                                      "dropped: draining",
                                      "interrupted: draining",
                                      "deadline, not ours: draining"});
}

TEST_CASE("every event of a member has its answer when a job is over") {
    CHECK(
        cells("over", "b") == Lines{
                                  "joined: n welcome, n standby, forming",
                                  "joined again: b welcome, b standby, forming",
                                  "resumed running: b closed:, b resumed, b result, succeeded",
                                  "resumed stopping: b closed:, b resumed, b result, succeeded",
                                  "resumed ready: b closed:, b resumed, b result, succeeded",
                                  "resumed succeeded: b closed:, b resumed, b result, succeeded",
                                  "ready: succeeded",
                                  "started: succeeded",
                                  "succeeded: succeeded",
                                  "failed: succeeded",
                                  "failed, another round: succeeded",
                                  "heartbeat: succeeded",
                                  "neighbour: succeeded",
                                  "notice: succeeded",
                                  "save report: succeeded",
                                  "drain: b drain_answer, succeeded",
                                  "undrain: b drain_answer, succeeded",
                                  "resize: b drain_answer, succeeded",
                                  "leave: succeeded",
                                  "leave for all: succeeded",
                                  "dropped: succeeded",
                                  "interrupted: succeeded",
                                  "deadline, not ours: succeeded"});
}

TEST_CASE("every event of a member has its answer while a job recovers") {
    CHECK(
        cells("recovering", "b") ==
        Lines{
            "joined: n welcome, n standby, recovering",
            "joined again: b closed:, b welcome, b standby, recovering",
            "resumed running: b closed:, b resumed, b assignment, recovering",
            "resumed stopping: b closed:, b resumed, b stop, recovering",
            "resumed ready: b closed:, b resumed, recovering",
            "resumed succeeded: b closed:, b resumed, b assignment, recovering",
            "ready: recovering",
            "started: recovering",
            "succeeded: recovering",
            "failed: b stop, recovering",
            "failed, another round: recovering",
            "heartbeat: recovering",
            "neighbour: recovering",
            "notice: recovering",
            "save report: recovering",
            "drain: b drain_answer, recovering",
            "undrain: b drain_answer, recovering",
            "resize: b drain_answer, recovering",
            "leave: b stop, recovering",
            "leave for all: b stop, recovering",
            "dropped: recovering",
            "interrupted: b stop, recovering",
            "deadline, not ours: recovering"});
}

TEST_CASE("every event of a standby has its answer while a round runs") {
    CHECK(
        cells("running", "s") == Lines{
                                     "joined: n welcome, n standby, running",
                                     "joined again: s closed:, s welcome, s standby, running",
                                     "resumed running: s closed:, s resumed, running",
                                     "resumed stopping: s closed:, s resumed, running",
                                     "resumed ready: s closed:, s resumed, s standby, running",
                                     "resumed succeeded: s closed:, s resumed, running",
                                     "ready: running",
                                     "started: running",
                                     "succeeded: running",
                                     "failed: running",
                                     "failed, another round: running",
                                     "heartbeat: running",
                                     "neighbour: running",
                                     "notice: running",
                                     "save report: running",
                                     "drain: s drain_answer, running",
                                     "undrain: s drain_answer, running",
                                     "resize: s drain_answer, running",
                                     "leave: running",
                                     "leave for all: a stop, b stop, draining",
                                     "dropped: running",
                                     "interrupted: a stop, b stop, draining",
                                     "deadline, not ours: running"});
}

TEST_CASE("every event of a standby has its answer while a round drains") {
    CHECK(
        cells("draining", "s") == Lines{
                                      "joined: n welcome, n standby, draining",
                                      "joined again: s closed:, s welcome, s standby, draining",
                                      "resumed running: s closed:, s resumed, draining",
                                      "resumed stopping: s closed:, s resumed, draining",
                                      "resumed ready: s closed:, s resumed, s standby, draining",
                                      "resumed succeeded: s closed:, s resumed, draining",
                                      "ready: draining",
                                      "started: draining",
                                      "succeeded: draining",
                                      "failed: draining",
                                      "failed, another round: draining",
                                      "heartbeat: draining",
                                      "neighbour: draining",
                                      "notice: draining",
                                      "save report: draining",
                                      "drain: s drain_answer, draining",
                                      "undrain: s drain_answer, draining",
                                      "resize: s drain_answer, draining",
                                      "leave: draining",
                                      "leave for all: draining",
                                      "dropped: draining",
                                      "interrupted: draining",
                                      "deadline, not ours: draining"});
}
