// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.hpp"

#include <array>
#include <cstdio>

namespace ddprun::sim {

void World::at(Instant moment, std::function<void()> action) {
    actions_.emplace(std::pair{std::max(moment, now_), next_number_++}, std::move(action));
}

bool World::step() {
    if (actions_.empty()) return false;
    auto first = actions_.extract(actions_.begin());
    now_ = first.key().first;
    first.mapped()();
    return true;
}

std::optional<Instant> World::next() const {
    if (actions_.empty()) return std::nullopt;
    return actions_.begin()->first.first;
}

void World::advance_to(Instant moment) {
    now_ = std::max(now_, moment);
}

void World::note(const std::string& line) {
    std::array<char, 32> time{};
    std::snprintf(time.data(), time.size(), "%.3f ", in_seconds(now_.time_since_epoch()));
    record_.push_back(time.data() + line);
}

std::string World::tail(std::size_t count) const {
    std::string text;
    const auto first = record_.size() > count ? record_.size() - count : 0;
    for (auto i = first; i < record_.size(); ++i)
        text += "\n  " + record_[i];
    return text;
}

}  // namespace ddprun::sim
