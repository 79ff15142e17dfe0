// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/neighbours.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>

namespace ddprun::coordinator {
namespace neighbours {
namespace {

using Ring = std::vector<std::size_t>;

/// How many hosts are inspected for one member: inspecting all hosts of a job of thousands for each
/// member would be slow.
constexpr int most_looked_at = 16;

/// For each place the next place on another host; empty when there is only one host.
Ring next_on_another_host(const std::vector<std::string>& hosts) {
    const auto count = hosts.size();
    const bool is_one_host = std::all_of(
        hosts.begin(), hosts.end(), [&](const auto& host) { return host == hosts.front(); });
    if (is_one_host) return {};
    Ring next(count);
    // Goes around twice: the first time, the entries at the beginning of the ring are not set yet
    // when its end needs them.
    for (std::size_t step = 2 * count; step-- > 0;) {
        const auto place = step % count;
        const auto after = (place + 1) % count;
        next[place] = hosts[after] == hosts[place] ? next[after] : after;
    }
    return next;
}

Ring successors(std::size_t own, std::size_t count) {
    Ring found;
    for (std::size_t step = 1; step < count && found.size() < limits::max_neighbours; ++step)
        found.push_back((own + step) % count);
    return found;
}

Ring of_other_hosts(std::size_t own, const std::vector<std::string>& hosts, const Ring& next) {
    const auto count = hosts.size();
    Ring chosen;
    Ring further;
    const auto is_chosen_host = [&](const std::string& host) {
        return std::any_of(
            chosen.begin(), chosen.end(), [&](auto place) { return hosts[place] == host; });
    };
    std::size_t walked = 0;
    auto place = own;
    for (int look = 0; look < most_looked_at && chosen.size() < limits::max_neighbours; ++look) {
        walked += (next[place] + count - place) % count;
        place = next[place];
        if (walked >= count) break;
        if (hosts[place] == hosts[own]) continue;
        (is_chosen_host(hosts[place]) ? further : chosen).push_back(place);
    }
    for (const auto first : Ring{chosen})
        for (auto other = (first + 1) % count;
             hosts[other] == hosts[first] && further.size() < limits::max_neighbours;
             other = (other + 1) % count)
            further.push_back(other);
    for (const auto other : further)
        if (chosen.size() < limits::max_neighbours &&
            std::find(chosen.begin(), chosen.end(), other) == chosen.end())
            chosen.push_back(other);
    return chosen;
}

}  // namespace
}  // namespace neighbours

std::vector<std::vector<std::size_t>> choose_neighbours(const std::vector<std::string>& hosts) {
    const auto next = neighbours::next_on_another_host(hosts);
    std::vector<std::vector<std::size_t>> all;
    all.reserve(hosts.size());
    for (std::size_t own = 0; own < hosts.size(); ++own)
        all.push_back(
            next.empty() ? neighbours::successors(own, hosts.size())
                         : neighbours::of_other_hosts(own, hosts, next));
    return all;
}

}  // namespace ddprun::coordinator
