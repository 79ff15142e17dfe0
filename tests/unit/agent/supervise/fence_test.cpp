// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/fence.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

const Nonce self = *Nonce::parse("0000000000000000000000000000000a");
const Nonce b = *Nonce::parse("0000000000000000000000000000000b");
const Nonce c = *Nonce::parse("0000000000000000000000000000000c");

/// A node whose last answered message was sent at 0, with two neighbours and a lease of 30 s.
struct Story {
    Fence fence{true, self};
    Fence::Membership membership{{{"inc", 30s, false}, Instant{}}};

    static Instant at(Duration since_start) { return Instant{} + since_start; }

    Story() {
        ctl::Assignment assignment;
        assignment.neighbours = {{b, "10.0.0.11", 20'011}, {c, "10.0.0.12", 20'012}};
        fence.enter_round(assignment);
    }
    /// All neighbours give this answer to a probe at that moment; true: the round is over.
    bool probes_at(Duration when, const std::optional<PeerAnswer>& answer) {
        bool is_over = false;
        for (const auto& ask : fence.probe_all(at(when)))
            is_over = fence.on_answer(ask.id, answer);
        return is_over;
    }
    void reaches_both() {
        probes_at(0s, PeerAnswer{PeerAnswer::Kind::elsewhere, -1});
        fence.report_reach();
    }
};

}  // namespace

TEST_CASE("with too few neighbours in reach a node is valid for a share of its lease") {
    Story story;
    story.probes_at(0s, std::nullopt);
    story.fence.report_reach();

    CHECK(story.fence.valid_until(story.membership) == Story::at(24s));
    CHECK(story.fence.ends_at(story.membership) == Story::at(24s));
    CHECK_FALSE(story.fence.probe_at(story.membership));
    CHECK(story.fence.is_valid(story.membership, Story::at(23s)));
    CHECK_FALSE(story.fence.is_valid(story.membership, Story::at(24s)));
}

TEST_CASE("the early fence holds from when the server hears that neighbours are in reach") {
    Story story;
    story.probes_at(0s, PeerAnswer{PeerAnswer::Kind::elsewhere, -1});
    CHECK(story.fence.valid_until(story.membership) == Story::at(24s));

    story.fence.report_reach();

    CHECK(story.fence.reported_reach() == 2);
    CHECK(story.fence.valid_until(story.membership) == Story::at(limits::fence_after_silence));
    CHECK(story.fence.probe_at(story.membership) == Story::at(limits::probe_after));
}

TEST_CASE("answers of neighbours keep a node valid, but not beyond its share of the lease") {
    Story story;
    story.reaches_both();

    story.probes_at(2s, PeerAnswer{PeerAnswer::Kind::accepted, 0});
    CHECK(story.fence.valid_until(story.membership) == Story::at(6s));
    CHECK(story.fence.probe_at(story.membership) == Story::at(3s));

    story.probes_at(23s, PeerAnswer{PeerAnswer::Kind::accepted, 0});
    CHECK(story.fence.valid_until(story.membership) == Story::at(24s));
    CHECK_FALSE(story.fence.probe_at(story.membership));
}

TEST_CASE("a later round at a neighbour ends this one") {
    Story story;
    story.reaches_both();
    CHECK_FALSE(story.probes_at(2s, PeerAnswer{PeerAnswer::Kind::refused, 0}));
    CHECK(story.probes_at(3s, PeerAnswer{PeerAnswer::Kind::refused, 1}));
}

TEST_CASE("a fence says why it ended") {
    Story story;
    story.reaches_both();
    CHECK(
        story.fence.silence(story.membership, Story::at(4s)) ==
        "no answer from the rendezvous server for 4 s, and no neighbour answers for this node");
    CHECK(
        story.fence.silence(story.membership, Story::at(24s)) ==
        "no answer from the rendezvous server for 24 s");
}

TEST_CASE("past the fence nothing is fenced again, and the keeper's moment stays") {
    Story story;
    CHECK(story.fence.change_keeper_fence(Story::at(24s)));
    CHECK_FALSE(story.fence.change_keeper_fence(Story::at(24s)));

    story.fence.trip();
    CHECK_FALSE(story.fence.ends_at(story.membership));
    CHECK_FALSE(story.fence.change_keeper_fence(std::nullopt));

    story.fence.clear();
    CHECK(story.fence.change_keeper_fence(std::nullopt));
}

TEST_CASE("without a lease, or before a welcome, there is no fence") {
    Story story;
    Fence alone{false, self};
    CHECK_FALSE(alone.valid_until(story.membership));
    CHECK(alone.is_valid(story.membership, Story::at(3600s)));
    CHECK_FALSE(story.fence.valid_until(std::nullopt));
    CHECK_FALSE(story.fence.is_valid(std::nullopt, Story::at(0s)));
}

TEST_CASE("another round, or another nonce, begins with no neighbour reported") {
    Story story;
    story.reaches_both();
    story.fence.enter_round({});
    CHECK(story.fence.reported_reach() == 0);

    Story other;
    other.reaches_both();
    other.fence.become(b);
    CHECK(other.fence.reported_reach() == 0);
}
