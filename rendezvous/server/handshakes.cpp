// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/handshakes.hpp"

#include <algorithm>

namespace ddprun::server {

std::optional<ConnectionId> Handshakes::add(
    ConnectionId id, const std::string& network, Instant now) {
    by_id_.emplace(id, Entry{network, now});
    by_network_[network].insert(id);
    if (by_id_.size() <= most_) return std::nullopt;
    auto closed = *busiest().begin();
    const auto& oldest = by_id_.at(closed);
    // The callers of one network do not push each other out before they had their chance.
    if (oldest.network == network && now < oldest.began_at + limits::youngest_closed_handshake)
        closed = id;
    remove(closed);
    return closed;
}

void Handshakes::remove(ConnectionId id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    const auto network = by_network_.find(found->second.network);
    network->second.erase(id);
    if (network->second.empty()) by_network_.erase(network);
    by_id_.erase(found);
}

/// Looked for only when there are too many.
const std::set<ConnectionId>& Handshakes::busiest() const {
    return std::max_element(
               by_network_.begin(),
               by_network_.end(),
               [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); })
        ->second;
}

}  // namespace ddprun::server
