// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/round.hpp"

#include "tests/unit/rendezvous/control/samples.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

Member a_member(std::uint8_t number, int nproc) {
    Member member;
    member.join.node = {control::samples::a_nonce(number), "node" + std::to_string(number), 100, 0};
    member.join.nproc = nproc;
    member.join.store_port = static_cast<std::uint16_t>(20'000 + number);
    member.join.peer_port = static_cast<std::uint16_t>(30'000 + number);
    member.reach = {"10.0.0." + std::to_string(number), false};
    member.connection = {ConnectionId{number}, "10.0.0.9", "10.0.0.9:1", "10.0.0.8"};
    member.arrival = number;
    return member;
}

/// Three nodes of unequal size in a round that has begun.
struct ThreeNodes {
    std::vector<Member> members{a_member(1, 2), a_member(2, 1), a_member(3, 4)};
    Round round;

    ThreeNodes() {
        round = plan_round({&members[0], &members[1], &members[2]}).round;
        round.number = 7;
        round.restart_count = 2;
        for (std::size_t rank = 0; rank < members.size(); ++rank)
            members[rank].group_rank = static_cast<int>(rank);
    }
};

}  // namespace

TEST_CASE("a round that its members report is the round that was planned") {
    ThreeNodes planned;
    auto recovered = recovered_round(planned.round.assignment_for(planned.members[1]), Instant{});

    for (auto& member : planned.members)
        CHECK(recovered.put_back(member, planned.round.assignment_for(member)));

    recovered.check();
    for (const auto& member : planned.members) {
        auto before = planned.round.assignment_for(member);
        // They are known when all are back, by nonce.
        before.neighbours.clear();
        CHECK(recovered.assignment_for(member) == before);
    }
}

TEST_CASE("a report that contradicts the round is not put back") {
    ThreeNodes planned;
    const auto good = planned.round.assignment_for(planned.members[1]);
    const auto refused = [&](auto change) {
        auto recovered = recovered_round(good, Instant{});
        auto report = good;
        change(report);
        return !recovered.put_back(planned.members[1], report);
    };

    CHECK_FALSE(refused([](auto&) {}));
    CHECK(refused([](auto& report) { report.group_world_size = 4; }));
    CHECK(refused([](auto& report) { report.group_rank = 3; }));
    CHECK(refused([](auto& report) { report.world_size = 8; }));
    CHECK(refused([](auto& report) { report.restart_count = 3; }));
}

TEST_CASE("a place is given back once") {
    ThreeNodes planned;
    const auto report = planned.round.assignment_for(planned.members[1]);
    auto recovered = recovered_round(report, Instant{});

    CHECK(recovered.put_back(planned.members[1], report));
    CHECK_FALSE(recovered.put_back(planned.members[2], report));
}

TEST_CASE("a member that has succeeded is needed only while others use its store") {
    ThreeNodes all;
    CHECK(all.round.needs(all.members[1]));

    all.round.places.at(1).has_succeeded = true;
    all.round.places.at(0).has_succeeded = true;
    all.round.succeeded_count = 2;
    CHECK_FALSE(all.round.needs(all.members[1]));
    CHECK(all.round.needs(all.members[0]));

    all.round.places.at(2).has_succeeded = true;
    all.round.succeeded_count = 3;
    CHECK_FALSE(all.round.needs(all.members[0]));
}
