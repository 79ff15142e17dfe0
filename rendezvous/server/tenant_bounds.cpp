// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/tenant_bounds.hpp"

#include <algorithm>

namespace ddprun::server {

std::string TenantConnections::add(ConnectionId id, const std::string& tenant) {
    if (tenant.empty()) return {};
    auto& count = counts_[tenant];
    if (count >= most_)
        return "this server has " + std::to_string(count) + " connections of tenant '" + tenant +
               "' already, and keeps no more of one tenant";
    ++count;
    tenant_of_.emplace(id, tenant);
    return {};
}

void TenantConnections::remove(ConnectionId id) {
    const auto found = tenant_of_.find(id);
    if (found == tenant_of_.end()) return;
    const auto count = counts_.find(found->second);
    if (--count->second == 0) counts_.erase(count);
    tenant_of_.erase(found);
}

const std::string& TenantConnections::tenant_of(ConnectionId id) const {
    static const std::string none;
    const auto found = tenant_of_.find(id);
    return found == tenant_of_.end() ? none : found->second;
}

std::optional<ConnectionId> biggest_of_biggest(const std::vector<Holder>& holders) {
    std::map<std::string, std::size_t> held;
    for (const auto& holder : holders)
        held[holder.tenant] += holder.held_bytes;
    const auto most = std::max_element(
        held.begin(), held.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == held.end() || most->second == 0) return std::nullopt;
    const Holder* biggest = nullptr;
    for (const auto& holder : holders)
        if (holder.tenant == most->first &&
            (biggest == nullptr || holder.held_bytes > biggest->held_bytes))
            biggest = &holder;
    return biggest->connection;
}

}  // namespace ddprun::server
