// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/handshakes.hpp"

#include <algorithm>
#include <tuple>

namespace ddprun::server {

std::optional<ConnectionId> Handshakes::add(ConnectionId id, const Caller& caller, Instant now) {
    std::optional<ConnectionId> closed;
    if (by_id_.size() >= most_) {
        closed = oldest_of_busiest();
        const auto& oldest = by_id_.at(*closed);
        // A caller must not displace another one of the same address before the other had time to
        // finish.
        if (oldest.caller.address == caller.address &&
            now < oldest.began_at + limits::youngest_closed_handshake)
            return id;
        remove(*closed);
    }
    by_id_.emplace(id, Entry{caller, now});
    auto& network = by_network_[caller.network];
    network.by_address[caller.address].insert(id);
    ++network.size;
    return closed;
}

void Handshakes::remove(ConnectionId id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    const auto network = by_network_.find(found->second.caller.network);
    const auto address = network->second.by_address.find(found->second.caller.address);
    address->second.erase(id);
    if (address->second.empty()) network->second.by_address.erase(address);
    if (--network->second.size == 0) by_network_.erase(network);
    by_id_.erase(found);
}

/// The oldest connection of the busiest address in the busiest network. Of equally busy addresses,
/// that with the oldest connection. A linear search, only done when there are too many connections.
ConnectionId Handshakes::oldest_of_busiest() const {
    const auto network =
        std::max_element(by_network_.begin(), by_network_.end(), [](const auto& a, const auto& b) {
            return a.second.size < b.second.size;
        });
    const auto& addresses = network->second.by_address;
    const auto address =
        std::max_element(addresses.begin(), addresses.end(), [](const auto& a, const auto& b) {
            const auto& [left, right] = std::tie(a.second, b.second);
            if (left.size() != right.size()) return left.size() < right.size();
            return *right.begin() < *left.begin();
        });
    return *address->second.begin();
}

}  // namespace ddprun::server
