// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/unproved_callers.hpp"

namespace ddprun::server {

ConnectionId UnprovedCallers::add(
    UnprovedPlace& place, const Handshakes::Caller& caller, Instant now) {
    const ConnectionId id{++last_id_};
    places_.emplace(id, &place);
    const auto surplus = counted_.add(id, caller, now);
    if (!surplus) return id;
    const auto found = places_.find(*surplus);
    auto* const taken = found->second;
    places_.erase(found);
    taken->take_away();
    return id;
}

void UnprovedCallers::remove(ConnectionId id) {
    counted_.remove(id);
    places_.erase(id);
}

UnprovedPlace::UnprovedPlace(
    std::shared_ptr<UnprovedCallers> callers, const Handshakes::Caller& caller, Instant now)
    : callers_(std::move(callers)),
      id_(callers_->add(*this, caller, now)) {}

UnprovedPlace::~UnprovedPlace() {
    if (!is_taken_) callers_->remove(id_);
}

void UnprovedPlace::take_away() {
    is_taken_ = true;
    if (close_) close_();
}

}  // namespace ddprun::server
