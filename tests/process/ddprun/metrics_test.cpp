// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/store_client.hpp"
#include "tests/process/ddprun/http_get.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <string>

using namespace ddprun;
using namespace ddprun::test;

TEST_CASE("/metrics and /status show a job's restarts, its workers and the waits in its store") {
    const TempDir dir;
    const Rendezvous rendezvous;
    auto job = start_job(
        dir,
        rendezvous.options({"--nnodes=1", "--nproc-per-node=2", "--max-restarts=1"}),
        "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exit 3; fi\n"
        "echo port $MASTER_PORT\n" +
            wait_for_ever);
    const auto port = job.wait_for_number("port ");
    job.wait_for_line("port ");
    client::StoreOptions options;
    options.endpoint = {"127.0.0.1", static_cast<std::uint16_t>(port)};
    auto store = client::StoreClient::connect(options);
    REQUIRE(store.has_value());
    REQUIRE(store->set("there", "x").has_value());
    // This wait ends with the job.
    const auto waiter = std::async(std::launch::async, [&] {
        return store->wait({"never", "there"}, 3 * fact_timeout);
    });

    const bool is_seen = holds_within(fact_timeout, [&] {
        return contains(http_get(rendezvous.endpoint, "/status"), "\"key\": \"/never\"");
    });
    const Words lines{
        "ddprun_rounds_total{job=\"tested\"} 2\n",
        "ddprun_restarts_total{job=\"tested\",cause=\"worker_failed\"} 1\n",
        "ddprun_restart_budget_used{job=\"tested\"} 1\n",
        "ddprun_workers{job=\"tested\",state=\"running\"} 2\n",
        "ddprun_phase_seconds_total{job=\"tested\",phase=\"draining\"} ",
        "ddprun_store_waits 1\n"};
    std::string metrics;
    // The agent may not have reported its workers yet, or the stores may send their numbers too
    // late for a page.
    holds_within(fact_timeout, [&] {
        metrics = http_get(rendezvous.endpoint, "/metrics");
        return std::all_of(
            lines.begin(), lines.end(), [&](auto& line) { return contains(metrics, line); });
    });
    job.signal(SIGINT);
    waiter.wait();

    CHECK(is_seen);
    for (const auto& line : lines)
        CHECK_MESSAGE(contains(metrics, line), metrics);
    CHECK_FALSE(contains(metrics, "ddprun_store_operations_total 0\n"));
    CHECK(job.wait_for_code() == 130);
    CHECK(no_descendants_left());
}
