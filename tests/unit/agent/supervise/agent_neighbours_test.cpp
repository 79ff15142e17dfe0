// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/limits.hpp"
#include "tests/unit/agent/supervise/story.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::agent::story;
using namespace std::chrono_literals;
namespace ctl = ddprun::control;

namespace {

using Kind = PeerAnswer::Kind;
using Asks = std::vector<Neighbours::Ask>;

const Nonce b = *Nonce::parse("0000000000000000000000000000000b");
const Nonce c = *Nonce::parse("0000000000000000000000000000000c");

ctl::Assignment with_neighbours(int round = 0) {
    auto assignment = an_assignment(round);
    assignment.neighbours = {{b, "10.0.0.11", 20'011}, {c, "10.0.0.12", 20'012}};
    return assignment;
}

/// One of three agents, and the answers of its neighbours.
struct Circle : Story {
    explicit Circle(bool is_hosted = false) : Story(a_config(3)), is_hosted_(is_hosted) {}

    void is_answered(const std::optional<PeerAnswer>& answer) {
        for (const auto& ask : asked_for<Neighbours::Ask>())
            is(A::PeerAnswered{ask.id, answer});
    }
    Circle& running_with(const std::optional<PeerAnswer>& answer) {
        is(A::Began{});
        is(A::StoreOpened{first_store});
        gets_through();
        hears(a_welcome(is_hosted_));
        hears(with_neighbours());
        is_answered(answer);
        is(A::WorkerSpawned{0, 100});
        is(A::WorkerSpawned{1, 101});
        return *this;
    }
    Circle& running_with_neighbours() { return running_with(PeerAnswer{Kind::elsewhere, -1}); }
    /// Only its neighbours hear it, and give this answer each time.
    void is_cut_off(Duration length, const std::optional<PeerAnswer>& answer) {
        const auto end = clock + length;
        while (agent.next_deadline() && *agent.next_deadline() <= end) {
            clock = std::max(clock, *agent.next_deadline());
            is(A::DeadlinePassed{});
            const auto effects = asked();
            for (const auto& effect : effects) {
                if (const auto* ask = std::get_if<Neighbours::Ask>(&effect))
                    is(A::PeerAnswered{ask->id, answer});
                if (const auto* connect = std::get_if<A::Connect>(&effect))
                    is(A::LinkClosed{connect->link, A::ConnectError::no_answer, "timed out"});
                if (const auto* note = std::get_if<A::NoteStopping>(&effect))
                    stopped_at[clock] = note->reason;
            }
        }
        clock = end;
    }
    bool has_workers() const { return agent.group() && !agent.group()->is_over(); }

    std::map<Instant, std::string> stopped_at;

private:
    bool is_hosted_;
};

}  // namespace

TEST_CASE("started says how many neighbours can be reached, and waits until that is known") {
    Circle story;
    story.joined().hears(with_neighbours());
    const auto asks = story.asked_for<Neighbours::Ask>();
    REQUIRE(asks.size() == 2);
    CHECK(asks[0].to == Endpoint{"10.0.0.11", 20'011});
    CHECK(asks[0].probe == PeerProbe{b, story.agent.node().nonce, 0});
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.is(A::PeerAnswered{asks[0].id, PeerAnswer{Kind::elsewhere, -1}});
    CHECK(story.said<ctl::Started>().empty());
    story.is(A::PeerAnswered{asks[1].id, std::nullopt});
    CHECK(story.said<ctl::Started>() == std::vector{ctl::Started{0, 1}});
}

TEST_CASE("the keeper knows the earlier fence before the server hears of the neighbours") {
    Circle story;
    story.joined().hears(with_neighbours());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    const auto asks = story.asked_for<Neighbours::Ask>();
    REQUIRE(asks.size() == 2);
    story.asked();
    for (const auto& ask : asks)
        story.is(A::PeerAnswered{ask.id, PeerAnswer{Kind::elsewhere, -1}});

    const auto asked = story.asked();
    REQUIRE(asked.size() == 2);
    CHECK(asked[0] == Agent::Effect{A::SetFence{Instant{} + limits::fence_after_silence}});
    CHECK(asked[1] == Agent::Effect{A::Send{story.link, ctl::Started{0, 2}}});
}

TEST_CASE("workers that are done before the neighbours have answered are reported in order") {
    Circle story;
    story.joined().hears(with_neighbours());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    story.asked();
    story.all_exit(success);
    const auto asked = story.asked();
    REQUIRE(asked.size() >= 2);
    CHECK(asked[0] == Agent::Effect{A::Send{story.link, ctl::Started{0, 0}}});
    CHECK(asked[1] == Agent::Effect{A::Send{story.link, ctl::Succeeded{0}}});
}

TEST_CASE("a node that hosts the server reaches no other node: both stop together") {
    Circle story;
    story.is(A::HostingChanged{true});
    story.joined().hears(with_neighbours());
    CHECK(story.asked_for<Neighbours::Ask>().empty());
    story.is(A::WorkerSpawned{0, 100});
    story.is(A::WorkerSpawned{1, 101});
    CHECK(story.said<ctl::Started>() == std::vector{ctl::Started{0, 0}});
}

TEST_CASE("a node is cut off: it fences itself four seconds after its last answered heartbeat") {
    Circle story;
    story.running_with_neighbours();
    story.is_cut_off(40s, std::nullopt);
    REQUIRE(story.stopped_at.size() == 1);
    CHECK(story.stopped_at.begin()->first == Instant{} + limits::fence_after_silence);
    CHECK(
        story.stopped_at.begin()->second ==
        "no answer from the rendezvous server for 4 s, and no neighbour answers for this node");
}

TEST_CASE("refused probes do not extend the fence, and change nothing else") {
    Circle story;
    story.running_with_neighbours();
    story.is_cut_off(40s, PeerAnswer{Kind::refused, 0});
    REQUIRE(story.stopped_at.size() == 1);
    CHECK(story.stopped_at.begin()->first == Instant{} + limits::fence_after_silence);
}

TEST_CASE("with fewer than two neighbours in reach the fence is a share of the lease") {
    Circle story;
    story.running_with(std::nullopt);
    story.is_cut_off(40s, PeerAnswer{Kind::accepted, 0});
    REQUIRE(story.stopped_at.size() == 1);
    CHECK(story.stopped_at.begin()->first == Instant{} + 24s);
}

TEST_CASE("accepted probes keep the workers, but not beyond their share of the lease") {
    Circle story;
    story.running_with_neighbours();
    story.asked();
    story.pass(1'999ms);
    CHECK(story.asked_for<Neighbours::Ask>().empty());
    story.pass(1ms);
    CHECK(story.asked_for<Neighbours::Ask>().size() == 2);
    story.is_answered(PeerAnswer{Kind::accepted, 0});
    CHECK(
        story.asked_for<A::SetFence>().back() ==
        A::SetFence{Instant{} + 2s + limits::fence_after_silence});
    story.asked();

    story.is_cut_off(21'999ms, PeerAnswer{Kind::accepted, 0});
    CHECK(story.stopped_at.empty());
    CHECK(story.has_workers());
    story.is_cut_off(40s, PeerAnswer{Kind::accepted, 0});
    REQUIRE(story.stopped_at.size() == 1);
    CHECK(story.stopped_at.begin()->first == Instant{} + 24s);
    CHECK(story.stopped_at.begin()->second == "no answer from the rendezvous server for 24 s");
}

TEST_CASE("a probe counts from when it was sent, not from when it was answered") {
    Circle story;
    story.running_with_neighbours();
    story.asked();
    story.pass(2s);
    const auto asks = story.asked_for<Neighbours::Ask>();
    story.pass(900ms);
    story.is(A::PeerAnswered{asks[0].id, PeerAnswer{Kind::accepted, 0}});
    CHECK(
        story.asked_for<A::SetFence>().back() ==
        A::SetFence{Instant{} + 2s + limits::fence_after_silence});
}

TEST_CASE("while the server answers no probe is needed, and the fence follows its answers") {
    Circle story;
    story.running_with_neighbours();
    story.asked();
    for (std::uint64_t seq = 1; seq <= 10; ++seq) {
        story.pass(1s);
        story.hears(ctl::HeartbeatAck{seq});
    }
    CHECK(story.asked_for<Neighbours::Ask>().empty());
    CHECK(
        story.asked_for<A::SetFence>().back() ==
        A::SetFence{Instant{} + 10s + limits::fence_after_silence});
}

TEST_CASE("after its fence a node sends no probe: the server must not wait for it") {
    Circle story;
    story.running_with_neighbours();
    story.is_cut_off(4s, std::nullopt);
    REQUIRE(story.stopped_at.size() == 1);
    story.all_exit(by_sigkill);
    story.has_no_leftovers();
    story.pass(10s);
    CHECK(story.asked_for<Neighbours::Ask>().empty());
}

TEST_CASE("a neighbour in a later round ends the workers at once") {
    Circle story;
    story.running_with_neighbours();
    story.pass(2s);
    story.asked();
    story.is(A::PeerAnswered{3, PeerAnswer{Kind::refused, 1}});
    REQUIRE(story.asked_for<A::NoteStopping>().size() == 1);
    CHECK(story.asked_for<A::NoteStopping>()[0].reason == "a neighbour is in a later round");
    CHECK(story.asked_for<G::KillSession>().size() == 2);
}

TEST_CASE("a node accepts probes as long as it is counted in itself") {
    Circle story;
    story.running_with_neighbours();
    story.asked();
    const PeerProbe probe{story.agent.node().nonce, b, 0};
    story.is(A::PeerAsked{1, probe});
    story.is_after(1s, A::PeerAsked{2, {c, b, 0}});
    story.is_after(2'999ms, A::PeerAsked{3, probe});
    story.is_after(1ms, A::PeerAsked{4, probe});
    CHECK(
        story.asked_for<A::AnswerPeer>() == std::vector{
                                                A::AnswerPeer{1, PeerAnswer{Kind::accepted, 0}},
                                                A::AnswerPeer{2, std::nullopt},
                                                A::AnswerPeer{3, PeerAnswer{Kind::accepted, 0}},
                                                A::AnswerPeer{4, PeerAnswer{Kind::elsewhere, 0}}});
}

TEST_CASE("the server asks about a silent member: a probe is reported, silence is a promise") {
    Circle story;
    story.running_with_neighbours();
    const PeerProbe probe{story.agent.node().nonce, b, 0};
    story.is(A::PeerAsked{1, probe});
    story.asked();
    story.pass(500ms);
    story.hears(ctl::Ask{b, 0, true});
    story.hears(ctl::Ask{c, 0, true});
    story.hears(ctl::Ask{c, 9, true});
    CHECK(
        story.said<ctl::NeighbourHeard>() == std::vector{
                                                 ctl::NeighbourHeard{b, 0, 500ms, false},
                                                 ctl::NeighbourHeard{c, 0, std::nullopt, true}});
    story.asked();
    story.is(A::PeerAsked{2, {story.agent.node().nonce, c, 0}});
    CHECK(story.asked() == Effects{A::AnswerPeer{2, PeerAnswer{Kind::refused, 0}}});
}

TEST_CASE("a resume reports again how many are in reach: the server may be another one") {
    Circle story;
    story.running_with_neighbours();
    story.asked();
    story.loses_server();
    story.gets_through();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>()[0].reached == 2);
    // Neighbours that were not reported to it do not count.
    Circle other;
    other.joined().hears(with_neighbours());
    other.is_answered(PeerAnswer{Kind::elsewhere, -1});
    other.asked();
    other.loses_server();
    other.gets_through();
    REQUIRE(other.said<ctl::Resume>().size() == 1);
    CHECK(other.said<ctl::Resume>()[0].reached == 0);
}

TEST_CASE("a node that is cut off for a moment comes back to the ddprun that hosts") {
    Circle story{true};
    story.running_with_neighbours();
    story.is_cut_off(4s, std::nullopt);
    REQUIRE(story.stopped_at.size() == 1);
    story.all_exit(by_sigkill);
    story.has_no_leftovers();
    // Its own silence does not show that the host is gone.
    REQUIRE(story.agent.phase() == Phase::joining);
    story.is(A::StoreOpened{second_store});
    story.pass(1s);
    story.gets_through();
    REQUIRE(story.said<ctl::Resume>().size() == 1);
    CHECK(story.said<ctl::Resume>()[0].state == ctl::NodeState::ready);
}

TEST_CASE("a node that is cut off for the share of the lease abandons a ddprun that hosts: 81") {
    Circle story{true};
    story.running_with_neighbours();
    story.is_cut_off(4s, std::nullopt);
    story.all_exit(by_sigkill);
    story.has_no_leftovers();
    story.is(A::StoreOpened{second_store});
    story.is_turned_away(A::ConnectError::no_answer, 60s);
    CHECK(story.report().exit_code == 81);
}
