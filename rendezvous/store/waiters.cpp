// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/waiters.hpp"

#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::store {

/// One wait for one name: a link of that name's line while the name is missing.
struct Waiters::Place {
    Wait* wait = nullptr;
    /// Null once the name was given.
    Line* line = nullptr;
    Place* before = nullptr;
    Place* after = nullptr;
};

/// The clients that wait for one name, first come first.
struct Waiters::Line {
    std::string name;
    Place* first = nullptr;
    Place* last = nullptr;

    void join(Place& place) {
        place.line = this;
        place.before = last;
        (last != nullptr ? last->after : first) = &place;
        last = &place;
    }
};

struct Waiters::Wait {
    ConnectionId client;
    Purpose purpose;
    Instant since;
    std::uint64_t age;
    std::size_t missing_count;
    /// Never resized: the lines point into it.
    std::vector<Place> places;
};

Waiters::Waiters() = default;
Waiters::~Waiters() = default;
Waiters::Waiters(Waiters&&) noexcept = default;
Waiters& Waiters::operator=(Waiters&&) noexcept = default;

void Waiters::begin(
    ConnectionId client, std::vector<std::string> missing, Purpose purpose, Instant since) {
    require(!missing.empty(), "a wait for nothing");
    cancel(client);
    auto& wait = waits_[client.value];
    wait = std::make_unique<Wait>(Wait{
        client, purpose, since, next_age_++, missing.size(), std::vector<Place>(missing.size())});
    for (std::size_t i = 0; i < missing.size(); ++i) {
        const auto [place, is_new] = lines_.try_emplace(missing[i]);
        if (is_new) place->second = std::make_unique<Line>(Line{std::move(missing[i])});
        wait->places[i].wait = wait.get();
        place->second->join(wait->places[i]);
    }
}

bool Waiters::cancel(ConnectionId client) {
    const auto found = waits_.find(client.value);
    if (found == waits_.end()) return false;
    for (auto& place : found->second->places) {
        if (place.line == nullptr) continue;
        auto& line = *place.line;
        leave_line(place);
        if (line.first == nullptr) lines_.erase(lines_.find(line.name));
    }
    waits_.erase(found);
    return true;
}

void Waiters::appeared(std::string_view name, std::vector<ConnectionId>& completed) {
    appeared_to(name, true, completed);
}

void Waiters::appeared_to_waits(std::string_view name, std::vector<ConnectionId>& completed) {
    appeared_to(name, false, completed);
}

void Waiters::appeared_to(
    std::string_view name, bool barriers_too, std::vector<ConnectionId>& completed) {
    if (lines_.empty()) return;
    const auto line = lines_.find(name);
    if (line == lines_.end()) return;
    for (auto* place = line->second->first; place != nullptr;) {
        auto& here = *std::exchange(place, place->after);
        if (!barriers_too && here.wait->purpose == Purpose::barrier) continue;
        auto& wait = *here.wait;
        if (!give(here)) continue;
        completed.push_back(wait.client);
        waits_.erase(wait.client.value);
    }
    if (line->second->first == nullptr) lines_.erase(line);
}

std::optional<Waiters::Woken> Waiters::wake_one(std::string_view name) {
    const auto line = lines_.find(name);
    if (line == lines_.end()) return std::nullopt;
    auto* place = line->second->first;
    while (place != nullptr && place->wait->purpose == Purpose::barrier)
        place = place->after;
    if (place == nullptr) return std::nullopt;

    auto& wait = *place->wait;
    const Woken woken{wait.client, give(*place), wait.places.size() == 1};
    if (woken.is_complete) waits_.erase(wait.client.value);
    if (line->second->first == nullptr) lines_.erase(line);
    return woken;
}

std::vector<Waiters::Waiting> Waiters::list(std::size_t longest) const {
    std::vector<const Wait*> waits;
    waits.reserve(waits_.size());
    for (const auto& [client, wait] : waits_)
        waits.push_back(wait.get());
    std::sort(
        waits.begin(), waits.end(), [](const Wait* a, const Wait* b) { return a->age < b->age; });
    if (waits.size() > longest) waits.resize(longest);

    std::vector<Waiting> result;
    for (const auto* wait : waits) {
        Waiting waiting{wait->client, {}, wait->since};
        for (const auto& place : wait->places)
            if (place.line != nullptr) waiting.missing.push_back(place.line->name);
        result.push_back(std::move(waiting));
    }
    return result;
}

bool Waiters::give(Place& place) {
    leave_line(place);
    return --place.wait->missing_count == 0;
}

void Waiters::leave_line(Place& place) {
    auto& line = *place.line;
    (place.before != nullptr ? place.before->after : line.first) = place.after;
    (place.after != nullptr ? place.after->before : line.last) = place.before;
    place.line = nullptr;
    place.before = place.after = nullptr;
}

}  // namespace ddprun::store
