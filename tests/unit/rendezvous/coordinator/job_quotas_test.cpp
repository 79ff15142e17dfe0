// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/job_quotas.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using namespace ddprun;
using namespace ddprun::coordinator;

using Request = JobQuotas::Request;

TEST_CASE("no tenant and no address uses up the jobs of a server") {
    JobQuotas quotas(limits::max_nodes_per_tenant);
    const auto address = [](std::size_t number) { return "10.0.0." + std::to_string(number); };
    for (std::size_t i = 0; i < limits::max_jobs_per_tenant; ++i)
        quotas.add({address(i), "blue"});
    const JobQuotas::Owner blue{"10.1.0.0", "blue"};
    CHECK(
        quotas.objection_to(blue, Request::job) ==
        "this server has 1000 jobs of tenant 'blue' already, and keeps no more of one tenant");
    CHECK(quotas.objection_to({"10.1.0.0", "red"}, Request::job).empty());
    quotas.remove({address(0), "blue"});
    CHECK(quotas.objection_to(blue, Request::job).empty());

    // Tenants behind one address do not share its quota.
    for (std::size_t i = 0; i < limits::max_jobs_per_tenant; ++i)
        quotas.add({"10.2.0.0", "green"});
    CHECK(quotas.objection_to({"10.2.0.0", "red"}, Request::job).empty());

    quotas.clear();
    // Without tenants only the address counts.
    for (std::size_t i = 0; i < limits::max_jobs_per_network; ++i)
        quotas.add({"10.0.0.1", {}});
    CHECK(
        quotas.objection_to({"10.0.0.1", {}}, Request::job) ==
        "this server has 1000 jobs from 10.0.0.1 already, and keeps no more from one address");
    CHECK(quotas.objection_to({"10.0.0.2", {}}, Request::job).empty());
    quotas.remove({"10.0.0.1", {}});
    CHECK(quotas.objection_to({"10.0.0.1", {}}, Request::job).empty());
}

TEST_CASE("all jobs of a server together are bounded") {
    JobQuotas quotas(limits::max_nodes_per_tenant);
    for (std::size_t i = 0; i < limits::max_jobs_per_server; ++i)
        quotas.add({"address " + std::to_string(i), "tenant " + std::to_string(i)});
    CHECK(quotas.objection_to({"x", "y"}, Request::job) == "this server has too many jobs: 10000");
    quotas.remove({"address 7", "tenant 7"});
    CHECK(quotas.objection_to({"x", "y"}, Request::job).empty());
}

TEST_CASE("the nodes of a tenant are bounded, whichever of its jobs they are in") {
    JobQuotas quotas(limits::max_nodes_per_tenant);
    const JobQuotas::Owner blue{"10.0.0.1", "blue"};
    quotas.count_nodes("blue", 0, limits::max_nodes_per_tenant - 1);
    CHECK(quotas.objection_to(blue, Request::node).empty());
    quotas.count_nodes("blue", 0, 1);
    const std::string full =
        "this server has 16384 nodes of tenant 'blue' already, and keeps no more of one tenant";
    CHECK(quotas.objection_to(blue, Request::node) == full);
    CHECK(quotas.objection_to(blue, Request::job) == full);
    CHECK(quotas.objection_to({"10.0.0.1", "red"}, Request::job).empty());
    quotas.count_nodes("blue", 2, 1);
    CHECK(quotas.objection_to(blue, Request::node).empty());
    // Without tenants a server has no such bound.
    quotas.count_nodes({}, 0, limits::max_nodes_per_tenant);
    CHECK(quotas.objection_to({"10.0.0.1", {}}, Request::node).empty());
}
