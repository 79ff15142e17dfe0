// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/queues.hpp"

#include "rendezvous/base/machine.hpp"

#include <new>
#include <utility>

namespace ddprun::store {

namespace {

/// The memory overhead of a queue and of an element, as in keyspace.cpp.
constexpr std::size_t queue_bytes = 160;
constexpr std::size_t element_bytes = 96;

}  // namespace

std::size_t Queues::growth(std::string_view name, std::size_t value_bytes) const {
    const auto queue = queues_.find(name) == queues_.end() ? queue_bytes + name.size() : 0;
    return queue + element_bytes + value_bytes;
}

void Queues::push(std::string name, std::string value) {
    std::list<wire::SharedText> element;
    element.emplace_back(std::move(value), meter_);
    const auto [place, is_new] = queues_.try_emplace(std::move(name));
    if (is_new) *meter_ += queue_bytes + place->first.size();
    *meter_ += element_bytes + element.front().own_bytes();
    place->second.elements.splice(place->second.elements.end(), element);
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
    *meter_ -= element_bytes + popped.value->own_bytes();
    if (elements.empty()) {
        *meter_ -= queue_bytes + name.size();
        queues_.erase(place);
    }
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
    const auto queue = queues_.find(name);
    const auto place =
        reservations_.emplace(next_age_++, Reservation{client, &queue->first, until}).first;
    try {
        reservation_of_.emplace(client.value, place);
    } catch (const std::bad_alloc&) {
        reservations_.erase(place);
        throw;
    }
    ++queue->second.reserved_count;
}

std::optional<std::string_view> Queues::release(ConnectionId client) {
    const auto place = reservation_of_.find(client.value);
    if (place == reservation_of_.end()) return std::nullopt;
    return forget(place->second);
}

const std::string* Queues::reserved_by(ConnectionId client) const {
    if (reservation_of_.empty()) return nullptr;
    const auto place = reservation_of_.find(client.value);
    return place == reservation_of_.end() ? nullptr : place->second->second.name;
}

std::optional<Instant> Queues::next_expiry() const {
    if (reservations_.empty()) return std::nullopt;
    return reservations_.begin()->second.until;
}

std::optional<std::string_view> Queues::expire(Instant now) {
    if (reservations_.empty() || now < reservations_.begin()->second.until) return std::nullopt;
    return forget(reservations_.begin());
}

std::string_view Queues::forget(ByAge::iterator reservation) {
    const std::string_view name = *reservation->second.name;
    --queues_.find(name)->second.reserved_count;
    reservation_of_.erase(reservation->second.client.value);
    reservations_.erase(reservation);
    return name;
}

}  // namespace ddprun::store
