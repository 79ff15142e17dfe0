// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/round.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/coordinator/neighbours.hpp"
#include "rendezvous/coordinator/rank_order.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace ddprun::coordinator {

void Round::seat(std::size_t group_rank, const Member& member, int rank_base, int role_rank_base) {
    auto& place = places.take(group_rank);
    place.nonce = member.nonce();
    place.host = member.host();
    place.nproc = member.join.nproc;
    place.rank_base = rank_base;
    place.role = member.join.role;
    place.role_rank_base = role_rank_base;
    place.reach = member.reach;
    place.store_port = member.join.store_port;
    place.peer_port = member.join.peer_port;
}

PlannedRound plan_round(const std::vector<Member*>& chosen) {
    std::vector<Candidate> candidates;
    candidates.reserve(chosen.size());
    for (const auto* member : chosen)
        candidates.push_back(
            {member->join,
             member->group_rank,
             is_endpoint_host(member->reach, member->connection),
             member->arrival});
    auto order = rank_order(candidates);

    PlannedRound planned;
    auto& round = planned.round;
    planned.warning = std::move(order.warning);
    round.places = Places{order.places.size()};
    std::map<std::string, int> role_sizes;
    std::vector<std::string> hosts;
    for (std::size_t rank = 0; rank < order.places.size(); ++rank) {
        const auto& member = *chosen[order.places[rank].candidate];
        auto& role_size = role_sizes[member.join.role];
        round.seat(rank, member, round.world_size, role_size);
        round.places.at(rank).reason = std::move(order.places[rank].reason);
        round.world_size += member.join.nproc;
        role_size += member.join.nproc;
        hosts.push_back(member.host());
    }
    auto neighbours = choose_neighbours(hosts);
    for (std::size_t rank = 0; rank < round.places.size(); ++rank) {
        auto& place = round.places.at(rank);
        place.neighbours = std::move(neighbours[rank]);
        place.role_world_size = role_sizes[place.role];
    }
    return planned;
}

/// Within these bounds, later sums of the numbers also fit into an int.
bool is_possible(const control::Assignment& assignment) {
    const auto most_workers =
        std::int64_t{assignment.group_world_size} * limits::max_workers_per_node;
    return assignment.round <= limits::last_round &&
           assignment.group_rank < assignment.group_world_size &&
           assignment.world_size <= most_workers && assignment.role_world_size <= most_workers &&
           assignment.rank_base < assignment.world_size &&
           assignment.role_rank_base < assignment.role_world_size;
}

Round recovered_round(const control::Assignment& assignment, Instant now) {
    Round round;
    round.number = assignment.round;
    round.world_size = assignment.world_size;
    round.restart_count = assignment.restart_count;
    round.began_at = now;
    round.is_recovered = true;
    round.done_step = assignment.done_step;
    round.state = assignment.state;
    round.places = Places{static_cast<std::size_t>(assignment.group_world_size)};
    return round;
}

bool Round::put_back(const Member& member, const control::Assignment& assignment) {
    const auto rank = static_cast<std::size_t>(assignment.group_rank);
    const auto size = static_cast<std::size_t>(assignment.group_world_size);
    const bool is_possible = size == places.size() && rank < size && !places.is_taken(rank) &&
                             assignment.world_size == world_size &&
                             assignment.restart_count == restart_count;
    if (!is_possible) return false;
    seat(rank, member, assignment.rank_base, assignment.role_rank_base);
    auto& place = places.at(rank);
    place.role_world_size = assignment.role_world_size;
    place.reason = "as before the server was started again";
    if (rank == 0) place.store_port = assignment.master_port;
    return true;
}

bool Round::needs(const Member& member) const {
    if (!place_of(member).has_succeeded) return true;
    // The first member hosts the store that the remaining workers use.
    return *member.group_rank == 0 && succeeded_count < places.size();
}

control::Assignment Round::assignment_for(const Member& member) const {
    const auto& place = place_of(member);
    const auto& first = places.at(0);
    control::Assignment assignment;
    assignment.round = number;
    assignment.restart_count = restart_count;
    assignment.group_rank = *member.group_rank;
    assignment.group_world_size = static_cast<int>(places.size());
    assignment.rank_base = place.rank_base;
    assignment.world_size = world_size;
    assignment.role_rank_base = place.role_rank_base;
    assignment.role_world_size = place.role_world_size;
    assignment.master_addr = address_for(first.reach, member.connection);
    assignment.master_port = first.store_port;
    if (member.version() >= control::goodput_since) assignment.done_step = done_step;
    assignment.state = state;
    for (const auto neighbour : place.neighbours) {
        const auto& next = places.at(neighbour);
        assignment.neighbours.push_back(
            {next.nonce, address_for(next.reach, member.connection), next.peer_port});
    }
    return assignment;
}

std::string Round::hosts_text() const {
    constexpr std::size_t most_named = 8;
    std::vector<std::string> hosts;
    hosts.reserve(places.taken().size());
    for (const auto& [rank, place] : places.taken())
        hosts.push_back(place.host);
    return short_list(hosts, {most_named});
}

void Round::check() const {
    int next_rank = 0;
    std::map<std::string, int> next_role_rank;
    for (const auto& [rank, place] : places.taken()) {
        require(place.rank_base == next_rank, "each rank is given once");
        require(place.role_rank_base == next_role_rank[place.role], "each role rank is given once");
        next_rank += place.nproc;
        next_role_rank[place.role] += place.nproc;
    }
    require(next_rank == world_size, "the ranks are all there are");
    for (const auto& [rank, place] : places.taken())
        require(place.role_world_size == next_role_rank[place.role], "so are those of each role");
}

}  // namespace ddprun::coordinator
