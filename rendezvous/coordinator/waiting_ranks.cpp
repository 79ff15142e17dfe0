// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/waiting_ranks.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace ddprun::coordinator {
namespace waiting_ranks {
namespace {

constexpr std::size_t most_named_hosts = 8;
constexpr std::size_t most_named_ranges = 16;

using Ranks = std::vector<int>;

bool contains(const Ranks& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

void add(std::vector<RanksOfHost>& list, const std::string& host, Ranks ranks) {
    if (!ranks.empty()) list.push_back({host, std::move(ranks)});
}

std::size_t count(const std::vector<RanksOfHost>& list) {
    std::size_t sum = 0;
    for (const auto& node : list)
        sum += node.ranks.size();
    return sum;
}

/// "rank 7 (host-b)", "ranks 4-6 (host-a), 7 (host-b)".
std::string text_of(const std::vector<RanksOfHost>& list) {
    return (count(list) == 1 ? "rank " : "ranks ") +
           short_list(list, {most_named_hosts}, [](const RanksOfHost& node) {
               return ranges_text(node.ranks) + " (" + node.host + ")";
           });
}

/// Appends a part such as "rank 7 (host-b) is not connected".
void say(
    std::string& text,
    const std::vector<RanksOfHost>& list,
    std::string_view of_one,
    std::string_view of_several) {
    if (list.empty()) return;
    if (!text.empty()) text += "; ";
    text += text_of(list);
    text += count(list) == 1 ? of_one : of_several;
}

}  // namespace
}  // namespace waiting_ranks

std::string ranges_text(const std::vector<int>& ranks) {
    std::vector<std::string> ranges;
    for (std::size_t first = 0; first < ranks.size();) {
        auto last = first;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
            ++last;
        auto range = std::to_string(ranks[first]);
        if (last > first) range += "-" + std::to_string(ranks[last]);
        ranges.push_back(std::move(range));
        first = last + 1;
    }
    return short_list(ranges, {waiting_ranks::most_named_ranges, ","});
}

WaitingRanks find_ranks(const control::StoreWait& wait, const std::vector<NodeRanks>& nodes) {
    using namespace waiting_ranks;
    const std::set<std::string_view> sockets(wait.sockets.begin(), wait.sockets.end());
    WaitingRanks found;
    std::uint64_t known_clients = 0;
    for (const auto& node : nodes) {
        Ranks unconnected;
        Ranks ended;
        Ranks connected;
        Ranks unknown;
        std::set<int> waiting_here;
        std::set<int> connected_here;
        if (node.clients != nullptr)
            for (const auto& socket : node.clients->sockets) {
                connected_here.insert(socket.local_rank);
                if (!sockets.contains(socket.socket)) continue;
                ++known_clients;
                waiting_here.insert(socket.local_rank);
            }
        for (int local_rank = 0; local_rank < node.nproc; ++local_rank) {
            const int rank = node.rank_base + local_rank;
            if (waiting_here.contains(local_rank))
                found.waiting.push_back(rank);
            else if (connected_here.contains(local_rank))
                connected.push_back(rank);
            else if (node.clients != nullptr && contains(node.clients->ended, local_rank))
                ended.push_back(rank);
            else if (node.clients != nullptr && contains(node.clients->unconnected, local_rank))
                unconnected.push_back(rank);
            else
                unknown.push_back(rank);
        }
        add(found.unconnected, node.host, std::move(unconnected));
        add(found.ended, node.host, std::move(ended));
        add(found.connected, node.host, std::move(connected));
        add(found.unknown, node.host, std::move(unknown));
    }
    found.unknown_clients = wait.client_count - std::min(wait.client_count, known_clients);
    return found;
}

std::string waiting_text(const WaitingRanks& ranks) {
    auto text = ranges_text(ranks.waiting);
    if (ranks.unknown_clients == 0) return text;
    const bool is_alone = text.empty();
    if (!is_alone) text += " and ";
    text += std::to_string(ranks.unknown_clients);
    if (!is_alone) text += " other";
    return text + (ranks.unknown_clients == 1 ? " client" : " clients");
}

std::string missing_text(const WaitingRanks& ranks) {
    using waiting_ranks::say;
    std::string text;
    say(text, ranks.unconnected, " is not connected", " are not connected");
    say(text, ranks.ended, " has ended", " have ended");
    // An unknown client may belong to one of these ranks.
    if (ranks.unknown_clients == 0)
        say(text,
            ranks.connected,
            " is connected and does not wait for it",
            " are connected and do not wait for it");
    else
        say(text, ranks.connected, " is connected", " are connected");
    say(text, ranks.unknown, " is not known", " are not known");
    return text;
}

}  // namespace ddprun::coordinator
