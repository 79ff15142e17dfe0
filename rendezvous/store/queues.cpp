// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/queues.hpp"

#include "rendezvous/base/machine.hpp"

#include <utility>

namespace ddprun::store {

void Queues::push(std::string name, std::string value) {
    queues_[std::move(name)].elements.push_back(std::move(value));
}

Queues::Popped Queues::pop(std::string_view name, ConnectionId client) {
    const auto available = length(name, client);
    if (available == 0) return {};
    const auto* reserved = reserved_by(client);
    if (reserved != nullptr && *reserved == name) release(client);

    const auto place = queues_.find(name);
    auto& elements = place->second.elements;
    Popped popped{static_cast<std::int64_t>(available), std::move(elements.front())};
    elements.pop_front();
    if (elements.empty()) queues_.erase(place);
    return popped;
}

std::size_t Queues::length(std::string_view name, ConnectionId client) const {
    const auto* reserved = reserved_by(client);
    const bool has_own = reserved != nullptr && *reserved == name;
    return free_count(name) + (has_own ? 1 : 0);
}

std::size_t Queues::free_count(std::string_view name) const {
    const auto place = queues_.find(name);
    if (place == queues_.end()) return 0;
    return place->second.elements.size() - place->second.reserved_count;
}

void Queues::reserve(std::string_view name, ConnectionId client, Instant until) {
    require(free_count(name) > 0, "a queue element is reserved that is not there");
    require(reserved_by(client) == nullptr, "a second reservation of one client");
    ++queues_.find(name)->second.reserved_count;
    const auto place =
        reservations_.emplace(next_age_++, Reservation{client, std::string{name}, until}).first;
    reservation_of_.emplace(client.value, place);
}

std::optional<std::string> Queues::release(ConnectionId client) {
    const auto place = reservation_of_.find(client.value);
    if (place == reservation_of_.end()) return std::nullopt;
    return forget(place->second);
}

const std::string* Queues::reserved_by(ConnectionId client) const {
    if (reservation_of_.empty()) return nullptr;
    const auto place = reservation_of_.find(client.value);
    return place == reservation_of_.end() ? nullptr : &place->second->second.name;
}

std::optional<Instant> Queues::next_expiry() const {
    if (reservations_.empty()) return std::nullopt;
    return reservations_.begin()->second.until;
}

std::optional<std::string> Queues::expire(Instant now) {
    if (reservations_.empty() || now < reservations_.begin()->second.until) return std::nullopt;
    return forget(reservations_.begin());
}

std::string Queues::forget(ByAge::iterator reservation) {
    auto name = std::move(reservation->second.name);
    --queues_.find(name)->second.reserved_count;
    reservation_of_.erase(reservation->second.client.value);
    reservations_.erase(reservation);
    return name;
}

}  // namespace ddprun::store
