// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/waiters.hpp"

#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace ddprun::store {

/// One name of one wait: a link in that name's line while the name is missing.
struct Waiters::Place {
    Wait* wait = nullptr;
    /// Null once the name was given to the wait.
    Line* line = nullptr;
    Place* before = nullptr;
    Place* after = nullptr;
};

/// The clients that wait for one name, in order of arrival. Barriers have their own line, since an
/// arrival at a barrier does not end barriers and should not have to skip them.
struct Waiters::Line {
    struct Ends {
        Place* first = nullptr;
        Place* last = nullptr;
    };

    /// The key of its map entry.
    const std::string* name = nullptr;
    Ends waits;
    Ends barriers;

    bool is_empty() const { return waits.first == nullptr && barriers.first == nullptr; }
    Ends& ends_of(const Wait& wait);
    void join(Place& place);
    void leave(Place& place);
};

struct Waiters::Wait {
    ConnectionId client;
    Purpose purpose;
    Instant since;
    std::uint64_t age;
    std::size_t missing_count;
    /// Never resized, since the lines point into it.
    std::vector<Place> places;
};

namespace {

/// A name's entry in the map, besides its bytes, and its line.
constexpr std::size_t line_bytes = 192;
/// A wait and its entry in the map, besides its places; and the room for its reply (Store::Step).
constexpr std::size_t wait_bytes = 352;

}  // namespace

Waiters::Line::Ends& Waiters::Line::ends_of(const Wait& wait) {
    return wait.purpose == Purpose::barrier ? barriers : waits;
}

void Waiters::Line::join(Place& place) {
    auto& ends = ends_of(*place.wait);
    place.line = this;
    place.before = ends.last;
    (ends.last != nullptr ? ends.last->after : ends.first) = &place;
    ends.last = &place;
}

void Waiters::Line::leave(Place& place) {
    auto& ends = ends_of(*place.wait);
    (place.before != nullptr ? place.before->after : ends.first) = place.after;
    (place.after != nullptr ? place.after->before : ends.last) = place.before;
    place.line = nullptr;
    place.before = place.after = nullptr;
}

Waiters::Waiters() = default;
Waiters::~Waiters() = default;
Waiters::Waiters(Waiters&&) noexcept = default;
Waiters& Waiters::operator=(Waiters&&) noexcept = default;

void Waiters::begin(
    ConnectionId client, std::vector<std::string> missing, Purpose purpose, Instant since) {
    require(!missing.empty(), "a wait for nothing");
    cancel(client);
    auto& wait = *waits_
                      .emplace(
                          client.value,
                          std::make_unique<Wait>(Wait{
                              client,
                              purpose,
                              since,
                              next_age_++,
                              missing.size(),
                              std::vector<Place>(missing.size())}))
                      .first->second;
    held_bytes_ += wait_bytes + missing.size() * sizeof(Place);
    try {
        for (std::size_t i = 0; i < missing.size(); ++i) {
            wait.places[i].wait = &wait;
            line_of(std::move(missing[i])).join(wait.places[i]);
        }
    } catch (const std::bad_alloc&) {
        cancel(client);
        throw;
    }
}

Waiters::Line& Waiters::line_of(std::string name) {
    const auto found = lines_.find(name);
    if (found != lines_.end()) return *found->second;
    const auto entry = lines_.emplace(std::move(name), std::make_unique<Line>()).first;
    entry->second->name = &entry->first;
    held_bytes_ += line_bytes + entry->first.size();
    return *entry->second;
}

bool Waiters::cancel(ConnectionId client) {
    const auto found = waits_.find(client.value);
    if (found == waits_.end()) return false;
    for (auto& place : found->second->places) {
        if (place.line == nullptr) continue;
        auto& line = *place.line;
        line.leave(place);
        if (line.is_empty()) erase(lines_.find(*line.name));
    }
    end(*found->second);
    return true;
}

void Waiters::appeared(std::string_view name, std::vector<ConnectionId>& completed) {
    if (lines_.empty()) return;
    const auto line = lines_.find(name);
    if (line == lines_.end()) return;
    auto* wait = line->second->waits.first;
    auto* barrier = line->second->barriers.first;
    while (wait != nullptr || barrier != nullptr) {
        const bool is_wait_first =
            barrier == nullptr || (wait != nullptr && wait->wait->age < barrier->wait->age);
        auto*& next = is_wait_first ? wait : barrier;
        give(*std::exchange(next, next->after), completed);
    }
    erase(line);
}

void Waiters::appeared_to_waits(std::string_view name, std::vector<ConnectionId>& completed) {
    if (lines_.empty()) return;
    const auto line = lines_.find(name);
    if (line == lines_.end()) return;
    for (auto* place = line->second->waits.first; place != nullptr;)
        give(*std::exchange(place, place->after), completed);
    if (line->second->is_empty()) erase(line);
}

std::optional<Waiters::Woken> Waiters::wake_one(std::string_view name) {
    const auto line = lines_.find(name);
    if (line == lines_.end()) return std::nullopt;
    auto* place = line->second->waits.first;
    if (place == nullptr) return std::nullopt;

    const auto& wait = *place->wait;
    Woken woken{wait.client, false, wait.places.size() == 1};
    woken.is_complete = give(*place);
    if (line->second->is_empty()) erase(line);
    return woken;
}

std::vector<Waiters::Waiting> Waiters::list(std::size_t longest) const {
    std::vector<const Wait*> waits;
    waits.reserve(waits_.size());
    for (const auto& [client, wait] : waits_)
        waits.push_back(wait.get());
    longest = std::min(longest, waits.size());
    const auto end = waits.begin() + static_cast<std::ptrdiff_t>(longest);
    std::partial_sort(waits.begin(), end, waits.end(), [](const Wait* a, const Wait* b) {
        return a->age < b->age;
    });
    waits.resize(longest);

    std::vector<Waiting> result;
    for (const auto* wait : waits)
        result.push_back(shown(*wait));
    return result;
}

const Waiters::Place& Waiters::first_missing(const Wait& wait) {
    return *std::find_if(wait.places.begin(), wait.places.end(), [](const Place& place) {
        return place.line != nullptr;
    });
}

Waiters::Waiting Waiters::shown(const Wait& wait) {
    return {wait.client, *first_missing(wait).line->name, wait.missing_count, wait.since};
}

std::optional<Instant> Waiters::began_at(ConnectionId client) const {
    const auto found = waits_.find(client.value);
    if (found == waits_.end()) return std::nullopt;
    return found->second->since;
}

std::optional<Waiters::ForKey> Waiters::like_that_of(
    ConnectionId client, std::size_t most_clients) const {
    const auto found = waits_.find(client.value);
    if (found == waits_.end()) return std::nullopt;
    const auto& line = *first_missing(*found->second).line;
    ForKey result{shown(*found->second), 0, {}};
    for (const auto* first : {line.waits.first, line.barriers.first})
        for (const auto* place = first; place != nullptr; place = place->after) {
            // A name that a wait lists twice has two adjacent places.
            if (place->before != nullptr && place->before->wait == place->wait) continue;
            ++result.client_count;
            if (result.clients.size() < most_clients) result.clients.push_back(place->wait->client);
        }
    return result;
}

std::size_t Waiters::held_bytes(ConnectionId client) const {
    const auto found = waits_.find(client.value);
    if (found == waits_.end()) return 0;
    return wait_bytes + found->second->places.size() * (sizeof(Place) + line_bytes);
}

void Waiters::end(const Wait& wait) {
    held_bytes_ -= wait_bytes + wait.places.size() * sizeof(Place);
    waits_.erase(wait.client.value);
}

void Waiters::erase(Lines::iterator line) {
    held_bytes_ -= line_bytes + line->first.size();
    lines_.erase(line);
}

bool Waiters::give(Place& place) {
    auto& wait = *place.wait;
    place.line->leave(place);
    if (--wait.missing_count > 0) return false;
    end(wait);
    return true;
}

void Waiters::give(Place& place, std::vector<ConnectionId>& completed) {
    const auto client = place.wait->client;
    if (give(place)) completed.push_back(client);
}

}  // namespace ddprun::store
