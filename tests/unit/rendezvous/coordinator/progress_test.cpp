// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

using Reported = std::vector<control::RankProgress>;

void report(Story& job, const std::string& node, int round, Reported ranks) {
    job.say(
        node,
        control::Heartbeat{
            0, std::nullopt, std::nullopt, control::NodeProgress{round, std::move(ranks)}});
}

/// "0:12/eval 3:-/train", of all nodes.
std::string shown(const Story& job) {
    std::string text;
    for (const auto& node : job.status().nodes)
        for (const auto& worker : node.progress)
            text += (text.empty() ? "" : " ") + std::to_string(worker.rank) + ':' +
                    (worker.step ? std::to_string(*worker.step) : "-") + '/' + worker.phase;
    return text;
}

Story two_nodes() {
    Story job{"2", 3, [](control::Join& join) { join.nproc = 2; }};
    job.run("a b");
    job.output();
    return job;
}

}  // namespace

TEST_CASE("the status has what workers report, under their ranks") {
    auto job = two_nodes();
    CHECK(shown(job).empty());
    report(job, "a", 0, {{0, {12, control::WorkPhase::eval}}});
    report(job, "b", 0, {{1, {std::nullopt, control::WorkPhase::train}}});
    CHECK(shown(job) == "0:12/eval 3:-/train");
    CHECK(job.output().empty());
    report(job, "a", 0, {{0, {13, control::WorkPhase::none}}, {1, {9, control::WorkPhase::none}}});
    CHECK(shown(job) == "0:13/ 1:9/ 3:-/train");
}

TEST_CASE("progress of another round, or of a worker that a node does not have, is not shown") {
    auto job = two_nodes();
    report(job, "a", 1, {{0, {12, control::WorkPhase::eval}}});
    CHECK(shown(job).empty());
    report(job, "a", 0, {{2, {12, control::WorkPhase::eval}}});
    CHECK(shown(job).empty());
}
