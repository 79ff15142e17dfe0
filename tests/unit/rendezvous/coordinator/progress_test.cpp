// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

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
    job.show_progress("a", 0, {{0, {12, control::WorkPhase::eval}}});
    job.show_progress("b", 0, {{1, {std::nullopt, control::WorkPhase::train}}});
    CHECK(shown(job) == "0:12/eval 3:-/train");
    CHECK(job.output().empty());
    job.show_progress(
        "a", 0, {{0, {13, control::WorkPhase::none}}, {1, {9, control::WorkPhase::none}}});
    CHECK(shown(job) == "0:13/ 1:9/ 3:-/train");
}

TEST_CASE("progress of another round, or of a worker that a node does not have, is not shown") {
    auto job = two_nodes();
    job.show_progress("a", 1, {{0, {12, control::WorkPhase::eval}}});
    CHECK(shown(job).empty());
    job.show_progress("a", 0, {{2, {12, control::WorkPhase::eval}}});
    CHECK(shown(job).empty());
}
