// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/time_limits.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

/// Two to four nodes with every limit at its default.
JobSpec a_job() {
    const control::Settings usual;
    JobSpec spec;
    spec.nodes = {{2, 4, 0}, "--nnodes"};
    spec.max_restarts = {3, "--max-restarts"};
    spec.join_timeout = {usual.join_timeout, by_default};
    spec.last_call_timeout = {usual.last_call_timeout, by_default};
    spec.lease = {usual.lease, by_default};
    spec.grace = {usual.grace, by_default};
    spec.restarts.delay = {{}, by_default};
    spec.restarts.refill = {{}, by_default};
    return spec;
}

/// The only contradiction; empty: there is none.
std::string contradiction_of(const JobSpec& spec) {
    const auto found = contradictions(spec);
    CHECK(found.size() <= 1);
    return found.empty() ? std::string{} : found.front();
}

bool says(const std::string& sentence, const std::string& part) {
    CAPTURE(sentence);
    return sentence.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("limits that were not chosen contradict nothing, wherever the job runs") {
    auto spec = a_job();
    spec.environment = {{"SLURM_JOB_ID", "7"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
    CHECK(contradictions(spec).empty());
    spec.join_timeout = {5s, "--rdzv-conf join_timeout"};
    CHECK(contradictions(spec).empty());
}

TEST_CASE("a lease as long as join_timeout is noted, with both origins and what to do") {
    auto spec = a_job();
    spec.join_timeout = {60s, "--rdzv-conf join_timeout"};
    spec.lease = {59s, "--rdzv-conf keep_alive_interval x keep_alive_max_attempt"};
    CHECK(contradictions(spec).empty());
    spec.lease.value = 60s;
    CHECK(
        contradiction_of(spec) ==
        "the lease (60 s, --rdzv-conf keep_alive_interval x keep_alive_max_attempt) is not shorter "
        "than join_timeout (60 s, --rdzv-conf join_timeout): nodes that come to replace a silent "
        "one time out before its place is free; give a longer join_timeout or a shorter "
        "keep_alive_interval");

    // A job of one node has no other node to lose.
    spec.nodes.value = {1, 1, 0};
    CHECK(contradictions(spec).empty());
}

TEST_CASE("a last call that join_timeout does not shorten is noted where there is one") {
    auto spec = a_job();
    spec.join_timeout = {10s, "--rdzv-conf join_timeout"};
    spec.last_call_timeout = {20s, "--rdzv-conf last_call_timeout"};
    CHECK(says(contradiction_of(spec), "last_call_timeout (20 s, "));
    spec.nodes.value = {4, 4, 0};
    CHECK(contradictions(spec).empty());
}

TEST_CASE("a grace that others do not wait for is noted") {
    auto spec = a_job();
    spec.join_timeout = {40s, "--rdzv-conf join_timeout"};
    spec.grace = {40s, "--shutdown-timeout"};
    CHECK(says(contradiction_of(spec), "a shorter --shutdown-timeout"));
}

TEST_CASE("a grace that the scheduler does not grant is noted") {
    auto spec = a_job();
    spec.nodes.value = {1, 1, 0};
    spec.grace = {30s, "--shutdown-timeout"};
    CHECK(contradictions(spec).empty());
    spec.environment = {{"SLURM_JOB_ID", "7"}};
    CHECK(says(contradiction_of(spec), "unless its KillWait is longer here"));
    spec.environment = {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
    CHECK(says(contradiction_of(spec), "unless its terminationGracePeriodSeconds is longer"));
    spec.grace.value = 29s;
    CHECK(contradictions(spec).empty());
}

TEST_CASE(
    "a budget that fills faster than the pauses grow is noted, and a pause that never comes") {
    auto spec = a_job();
    spec.restarts.delay = {{5s, 300s}, "--restart-delay"};
    spec.restarts.refill = {60s, "--restart-refill"};
    CHECK(says(contradiction_of(spec), "may restart for ever"));
    spec.restarts.refill.value = 300s;
    CHECK(contradictions(spec).empty());
    spec.max_restarts.value = 0;
    CHECK(says(contradiction_of(spec), "give --max-restarts too"));
}
