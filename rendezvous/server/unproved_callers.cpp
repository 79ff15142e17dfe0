// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/unproved_callers.hpp"

namespace ddprun::server {

std::string UnprovedCallers::objection_to(const std::string& network) const {
    const auto found = of_network_.find(network);
    if (found != of_network_.end() && found->second >= most_of_network_)
        return "too many callers of one address that have not proved the secret: " +
               std::to_string(found->second);
    if (size_ >= most_)
        return "too many callers that have not proved the secret: " + std::to_string(size_);
    return {};
}

void UnprovedCallers::add(const std::string& network) {
    ++of_network_[network];
    ++size_;
}

void UnprovedCallers::remove(const std::string& network) {
    --size_;
    const auto found = of_network_.find(network);
    if (--found->second == 0) of_network_.erase(found);
}

}  // namespace ddprun::server
