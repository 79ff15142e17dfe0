// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/host_record.hpp"

#include <algorithm>
#include <chrono>

namespace ddprun::coordinator {
namespace host_record {
namespace {

using namespace std::chrono_literals;

/// A second loss or leave within this time is too soon.
constexpr Duration window = 10min;
constexpr Duration shortest_pause = 30s;
constexpr Duration longest_pause = 10min;

}  // namespace
}  // namespace host_record

void HostRecord::note_gone(const std::string& host, int round, Instant now) {
    using namespace host_record;
    // An entry older than the window has no effect any more.
    for (auto entry = entries_.begin(); entry != entries_.end();)
        entry = now - entry->second.back_at > window ? entries_.erase(entry) : std::next(entry);
    const auto [found, is_new] = entries_.try_emplace(host);
    auto& entry = found->second;
    if (!is_new && entry.round == round) return;
    if (!is_new) entry.pause = std::clamp(2 * entry.pause, shortest_pause, longest_pause);
    entry.round = round;
    entry.back_at = now + entry.pause;
}

std::optional<Instant> HostRecord::stands_by_until(const std::string& host, Instant now) const {
    const auto found = entries_.find(host);
    if (found == entries_.end() || found->second.back_at <= now) return std::nullopt;
    return found->second.back_at;
}

}  // namespace ddprun::coordinator
