// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/node_stores.hpp"

#include "rendezvous/base/machine.hpp"

#include <utility>

namespace ddprun::agent {

void NodeStores::open(Effects& out) {
    if (fresh_ || is_opening_) return;
    is_opening_ = true;
    out.push_back(AgentInterface::OpenStore{});
}

void NodeStores::on_opened(std::uint16_t port) {
    require(is_opening_ && !fresh_, "a store is opened when asked for");
    is_opening_ = false;
    fresh_ = port;
}

void NodeStores::begin_round(bool is_first, bool is_shared, Effects& out) {
    close_used(out);
    if (!is_first) return;
    used_ = std::exchange(fresh_, std::nullopt);
    // Worker rank 0 binds this port itself.
    if (!is_shared) close_used(out);
}

void NodeStores::discard_fresh(Effects& out) {
    if (fresh_) out.push_back(AgentInterface::CloseStore{*fresh_});
    fresh_.reset();
}

void NodeStores::close_all(Effects& out) {
    close_used(out);
    discard_fresh(out);
}

void NodeStores::close_used(Effects& out) {
    if (used_) out.push_back(AgentInterface::CloseStore{*used_});
    used_.reset();
}

}  // namespace ddprun::agent
