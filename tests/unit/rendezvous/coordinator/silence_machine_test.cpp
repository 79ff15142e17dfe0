// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/machine.hpp"
#include "rendezvous/coordinator/silence.hpp"
#include "tests/unit/rendezvous/control/samples.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;

Nonce nonce(char node) {
    return control::samples::a_nonce(static_cast<std::uint8_t>(node));
}

static_assert(Machine<Silence>);

/// Nodes a, b and c, and the machine's effects. Time passes from deadline to deadline.
class Story {
public:
    explicit Story(std::optional<Duration> lease = 30s, const std::string& nodes = "abc")
        : silence(lease) {
        for (const char node : nodes)
            feed(Silence::Appeared{nonce(node), std::string{node}});
    }

    void feed(Silence::Event event) {
        std::vector<Silence::Effect> effects;
        silence.handle(std::move(event), now, effects);
        for (const auto& effect : effects)
            note(effect);
    }

    /// All are in one round. Each of them is asked about the other two, and can reach `reached` of
    /// them.
    void run(int reached = 2) {
        feed(Silence::RoundBegan{
            0,
            {{nonce('a'), "a", {1, 2}}, {nonce('b'), "b", {2, 0}}, {nonce('c'), "c", {0, 1}}},
            false});
        for (const char node : {'a', 'b', 'c'})
            feed(Silence::Reached{nonce(node), reached});
    }

    /// The nodes in `heard` send a message each second.
    void pass(Duration length, const std::string& heard = "") {
        for (const auto end = now + length; now < end; now = std::min(end, now + 1s)) {
            for (const char node : heard)
                feed(Silence::Heard{nonce(node)});
            if (silence.next_deadline() && now >= *silence.next_deadline())
                feed(Silence::DeadlinePassed{});
        }
        for (const char node : heard)
            feed(Silence::Heard{nonce(node)});
        feed(Silence::DeadlinePassed{});
    }

    void answer(char witness, char about, std::optional<Duration> ago, bool has_confirmed) {
        feed(Silence::Answered{nonce(witness), {nonce(about), 0, ago, has_confirmed}});
    }

    Lines output() { return std::exchange(lines_, {}); }

    Silence silence;
    Instant now{};

private:
    void note(const Silence::Effect& effect) {
        const auto name = [](const Nonce& one) {
            for (const char node : {'a', 'b', 'c', 'd'})
                if (one == nonce(node)) return std::string{node};
            return std::string{"?"};
        };
        lines_.push_back(std::visit(
            Overloaded{
                [&](const Silence::Lost& lost) { return name(lost.nonce) + " lost: " + lost.how; },
                [&](const Silence::Ask& ask) {
                    return name(ask.witness) + " asked about " + name(ask.question.node) +
                           (ask.question.must_confirm ? " to confirm" : "");
                },
                [&](const Silence::Noted& noted) { return noted.text; },
                [&](Silence::Stale) { return std::string{"stale"}; },
            },
            effect));
    }

    Lines lines_;
};

}  // namespace

TEST_CASE("silence: a connection that ends is a loss half a second later unless the node is back") {
    Story nodes;
    nodes.feed(Silence::Dropped{nonce('b')});
    CHECK(nodes.silence.next_deadline() == nodes.now + 500ms);
    CHECK_FALSE(nodes.silence.is_heard(nonce('b'), nodes.now));

    nodes.feed(Silence::Attached{nonce('b')});
    nodes.pass(1s, "abc");
    CHECK(nodes.output() == Lines{});

    nodes.feed(Silence::Dropped{nonce('b')});
    nodes.pass(1s, "ac");
    CHECK(nodes.output() == Lines{"b lost: its connection ended"});
}

TEST_CASE("silence: behind a proxy the lease decides, and without a lease the connection") {
    Story leased;
    leased.feed(Silence::Dropped{nonce('b'), true});
    leased.pass(2s, "ac");
    CHECK(leased.output() == Lines{});

    Story alone{std::nullopt, "a"};
    alone.pass(1h);
    CHECK_FALSE(alone.silence.is_silent(nonce('a'), alone.now));
    alone.feed(Silence::Dropped{nonce('a'), true});
    alone.pass(1s);
    CHECK(alone.output() == Lines{"a lost: its connection ended"});
}

TEST_CASE("silence: neighbours that all confirm make a loss of a silence after 5 s") {
    Story nodes;
    nodes.run();

    nodes.pass(3s, "ac");
    CHECK(
        nodes.output() ==
        Lines{
            "c asked about b",
            "a asked about b",
            "node b has been silent for 3 s, its neighbours are being asked; lost "
            "in 27 s unless it is heard"});
    nodes.pass(1s, "ac");
    CHECK(nodes.output() == Lines{"c asked about b to confirm", "a asked about b to confirm"});
    nodes.answer('a', 'b', std::nullopt, true);
    nodes.answer('c', 'b', std::nullopt, true);
    nodes.pass(1s, "ac");
    CHECK(
        nodes.output() ==
        Lines{
            "b lost: nothing was heard of it for 5 s, and none of its neighbours hears it: c, a"});
}

TEST_CASE("silence: too few neighbours in reach, or a job that is over, leave it to the lease") {
    Story out_of_reach;
    out_of_reach.run(1);
    out_of_reach.pass(29s, "ac");
    CHECK(
        out_of_reach.output() ==
        Lines{"node b has been silent for 3 s: lost in 27 s unless it is heard"});
    out_of_reach.pass(1s, "ac");
    CHECK(out_of_reach.output() == Lines{"b lost: nothing was heard of it for 30 s"});

    Story over;
    over.run();
    over.feed(Silence::Ended{});
    over.pass(30s, "ac");
    CHECK(over.output() == Lines{"b lost: nothing was heard of it for 30 s"});
}

TEST_CASE("silence: a new round forgets which nodes were in reach, a recovered one does not") {
    for (const bool is_recovered : {false, true}) {
        Story nodes;
        nodes.run();
        nodes.feed(
            Silence::RoundBegan{1, {{nonce('a'), "a", {1}}, {nonce('b'), "b", {0}}}, is_recovered});
        nodes.pass(3s, "ac");
        const auto output = nodes.output();
        CHECK((output.front() == "a asked about b") == is_recovered);
    }
}

TEST_CASE("silence: a late wake-up forgets every suspicion and starts all leases again") {
    Story nodes;
    nodes.run();
    nodes.pass(4s, "ac");
    nodes.output();

    nodes.feed(Silence::WokenLate{});
    CHECK(nodes.silence.is_heard(nonce('b'), nodes.now));
    nodes.pass(2s, "ac");
    CHECK(nodes.output() == Lines{});
}

TEST_CASE("silence: an unrequested answer is stale") {
    Story nodes;
    nodes.run();
    nodes.answer('a', 'b', std::nullopt, true);
    nodes.answer('a', 'd', std::nullopt, true);
    CHECK(nodes.output() == Lines{"stale", "stale"});
}

TEST_CASE("silence: every event has its answer for a node that is heard, suspected or dropped") {
    const std::vector<std::pair<std::string, Silence::Event>> events{
        {"appeared", Silence::Appeared{nonce('d'), "d"}},
        {"heard", Silence::Heard{nonce('b')}},
        {"attached", Silence::Attached{nonce('b')}},
        {"dropped", Silence::Dropped{nonce('b')}},
        {"removed", Silence::Removed{nonce('b')}},
        {"round began", Silence::RoundBegan{1, {}, false}},
        {"reached", Silence::Reached{nonce('b'), 1}},
        {"answered", Silence::Answered{nonce('a'), {nonce('b'), 0, 1s, false}}},
        {"woken late", Silence::WokenLate{}},
        {"ended", Silence::Ended{}},
        {"deadline passed", Silence::DeadlinePassed{}},
    };
    const auto cells = [&](const std::string& state) {
        Lines lines;
        for (const auto& [name, event] : events) {
            Story nodes;
            nodes.run();
            if (state == "suspected") nodes.pass(3s, "ac");
            if (state == "dropped") nodes.feed(Silence::Dropped{nonce('b')});
            if (state == "dropped") nodes.now += 500ms;
            nodes.output();
            nodes.feed(event);
            for (const auto& line : nodes.output())
                lines.push_back(name + ": " + line);
        }
        return lines;
    };

    CHECK(cells("heard") == Lines{"answered: stale"});
    CHECK(
        cells("suspected") == Lines{
                                  "heard: node b is heard again: no node is silent any more",
                                  "attached: node b is heard again: no node is silent any more",
                                  "answered: node b is silent, but node a heard from it 1 s ago: "
                                  "kept"});
    CHECK(
        cells("dropped") ==
        Lines{"answered: stale", "deadline passed: b lost: its connection ended"});
}
