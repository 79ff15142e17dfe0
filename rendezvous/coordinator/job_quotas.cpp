// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/job_quotas.hpp"

#include "rendezvous/base/limits.hpp"

namespace ddprun::coordinator {
namespace job_quotas {
namespace {

using Counts = std::map<std::string, std::size_t>;

std::size_t count_of(const Counts& counts, const std::string& name) {
    const auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
}

void change(Counts& counts, const std::string& name, std::size_t before, std::size_t now) {
    auto& count = counts[name];
    count = count - before + now;
    if (count == 0) counts.erase(name);
}

}  // namespace
}  // namespace job_quotas

std::string JobQuotas::objection_to(const Owner& owner, Request request) const {
    const auto nodes = job_quotas::count_of(nodes_of_tenant_, owner.tenant);
    if (!owner.tenant.empty() && nodes >= most_nodes_of_tenant_)
        return "this server has " + std::to_string(nodes) + " nodes of tenant '" + owner.tenant +
               "' already, and keeps no more of one tenant";
    if (request == Request::node) return {};
    const auto of_network = job_quotas::count_of(of_network_, owner.network);
    const auto of_tenant = job_quotas::count_of(of_tenant_, owner.tenant);
    if (size_ >= limits::max_jobs_per_server)
        return "this server has too many jobs: " + std::to_string(size_);
    if (!owner.tenant.empty() && of_tenant >= limits::max_jobs_per_tenant)
        return "this server has " + std::to_string(of_tenant) + " jobs of tenant '" + owner.tenant +
               "' already, and keeps no more of one tenant";
    // Tenants may share an address, as behind NAT, and one must not use up the jobs of the others.
    if (owner.tenant.empty() && of_network >= limits::max_jobs_per_network)
        return "this server has " + std::to_string(of_network) + " jobs from " + owner.network +
               " already, and keeps no more from one address";
    return {};
}

void JobQuotas::add(const Owner& owner) {
    ++size_;
    job_quotas::change(of_network_, owner.network, 0, 1);
    job_quotas::change(of_tenant_, owner.tenant, 0, 1);
}

void JobQuotas::remove(const Owner& owner) {
    --size_;
    job_quotas::change(of_network_, owner.network, 1, 0);
    job_quotas::change(of_tenant_, owner.tenant, 1, 0);
}

void JobQuotas::count_nodes(const std::string& tenant, std::size_t before, std::size_t now) {
    if (before != now) job_quotas::change(nodes_of_tenant_, tenant, before, now);
}

void JobQuotas::clear() {
    size_ = 0;
    of_network_.clear();
    of_tenant_.clear();
    nodes_of_tenant_.clear();
}

}  // namespace ddprun::coordinator
