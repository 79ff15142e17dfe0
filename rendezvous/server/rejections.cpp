// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/rejections.hpp"

#include "rendezvous/base/limits.hpp"

namespace ddprun::server {

bool Rejections::add(std::string_view peer) {
    ++count_;
    if (addresses_.size() >= limits::max_remembered_peers) return false;
    return addresses_.emplace(peer.substr(0, peer.rfind(':'))).second;
}

}  // namespace ddprun::server
