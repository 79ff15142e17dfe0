// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/rank_order.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace ddprun::coordinator {
namespace rank_order_detail {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Removes the digits at the start of `text` and returns them without leading zeros.
std::string_view take_number(std::string_view& text) {
    std::size_t end = 0;
    while (end < text.size() && is_digit(text[end]))
        ++end;
    auto number = text.substr(0, end);
    text.remove_prefix(end);
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
}

int compare_naturally(std::string_view a, std::string_view b) {
    while (!a.empty() && !b.empty()) {
        if (is_digit(a.front()) && is_digit(b.front())) {
            const auto left = take_number(a);
            const auto right = take_number(b);
            if (left.size() != right.size()) return left.size() < right.size() ? -1 : 1;
            if (const int order = left.compare(right); order != 0) return order;
            continue;
        }
        if (a.front() != b.front()) return a.front() < b.front() ? -1 : 1;
        a.remove_prefix(1);
        b.remove_prefix(1);
    }
    if (a.empty() && b.empty()) return 0;
    return a.empty() ? -1 : 1;
}

bool comes_before(const Candidate& a, const Candidate& b) {
    const auto& a_asked = a.join.node_rank;
    const auto& b_asked = b.join.node_rank;
    if (a_asked.has_value() != b_asked.has_value()) return a_asked.has_value();
    if (a_asked) {
        if (*a_asked != *b_asked) return *a_asked < *b_asked;
        return a.arrival < b.arrival;
    }
    if (a.previous_rank.has_value() != b.previous_rank.has_value())
        return a.previous_rank.has_value();
    if (a.previous_rank && *a.previous_rank != *b.previous_rank)
        return *a.previous_rank < *b.previous_rank;
    if (a.is_endpoint_host != b.is_endpoint_host) return a.is_endpoint_host;
    const int order = compare_naturally(a.join.node.host, b.join.node.host);
    return order != 0 ? order < 0 : a.arrival < b.arrival;
}

/// Returns "row1" and "row1/rack7" for "row1/rack7".
std::vector<std::string_view> levels_of(std::string_view topology) {
    std::vector<std::string_view> levels;
    for (std::size_t end = 0; end < topology.size(); ++end) {
        end = std::min(topology.find('/', end), topology.size());
        levels.push_back(topology.substr(0, end));
        if (levels.size() == limits::max_topology_levels) break;
    }
    return levels;
}

/// Moves each node next to the first one of its switch in `order`, and likewise each switch next to
/// the first one of its row.
void bring_together(const std::vector<Candidate>& candidates, std::vector<std::size_t>& order) {
    std::map<std::string_view, std::size_t> first_of;
    std::vector<std::vector<std::size_t>> keys(candidates.size());
    for (std::size_t place = 0; place < order.size(); ++place) {
        const auto& join = candidates[order[place]].join;
        auto& key = keys[order[place]];
        if (!join.node_rank)
            for (const auto level : levels_of(join.node.topology))
                key.push_back(first_of.try_emplace(level, place).first->second);
        key.push_back(place);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return keys[a] < keys[b];
    });
}

std::string reason_of(const Candidate& candidate) {
    if (candidate.join.node_rank)
        return "node rank " + std::to_string(*candidate.join.node_rank) + " was asked for";
    const auto& topology = candidate.join.node.topology;
    const auto where = topology.empty() ? std::string{} : "switch " + topology + ": ";
    if (candidate.previous_rank)
        return where + "had group rank " + std::to_string(*candidate.previous_rank) + " before";
    if (candidate.is_endpoint_host) return where + "is the endpoint's host";
    return where + "by host name and arrival";
}

}  // namespace
}  // namespace rank_order_detail

RankOrder rank_order(const std::vector<Candidate>& candidates) {
    using namespace rank_order_detail;
    std::vector<std::size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return comes_before(candidates[a], candidates[b]);
    });
    bring_together(candidates, order);

    RankOrder result;
    const Candidate* before = nullptr;
    for (const auto index : order) {
        const auto& candidate = candidates[index];
        const bool is_repeated = before != nullptr && candidate.join.node_rank &&
                                 before->join.node_rank == candidate.join.node_rank;
        if (is_repeated && result.warning.empty())
            result.warning = "node rank " + std::to_string(*candidate.join.node_rank) +
                             " was asked for by " + before->join.node.host + " and by " +
                             candidate.join.node.host + ": the earlier one comes first";
        result.places.push_back({index, reason_of(candidate)});
        before = &candidate;
    }
    return result;
}

bool comes_before_naturally(std::string_view a, std::string_view b) {
    return rank_order_detail::compare_naturally(a, b) < 0;
}

}  // namespace ddprun::coordinator
