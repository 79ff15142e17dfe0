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

void decrease(Counts& counts, const std::string& name) {
    const auto found = counts.find(name);
    if (--found->second == 0) counts.erase(found);
}

}  // namespace
}  // namespace job_quotas

std::string JobQuotas::objection_to(const Owner& owner) const {
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
    ++of_network_[owner.network];
    ++of_tenant_[owner.tenant];
}

void JobQuotas::remove(const Owner& owner) {
    --size_;
    job_quotas::decrease(of_network_, owner.network);
    job_quotas::decrease(of_tenant_, owner.tenant);
}

void JobQuotas::clear() {
    size_ = 0;
    of_network_.clear();
    of_tenant_.clear();
}

}  // namespace ddprun::coordinator
