// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/ledger.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/control/text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <variant>

using namespace ddprun;
using namespace ddprun::coordinator;
using namespace std::chrono_literals;
using State = Ledger::State;

namespace {

constexpr Instant start{100s};

/// A ledger on a simulated clock.
class Account {
public:
    Account& enter(Duration at, State state, int round = 0) {
        ledger.enter(state, round, start + at);
        return *this;
    }
    Account& reach(
        Duration at,
        std::optional<std::uint64_t> step,
        std::size_t node = 0,
        bool is_saving = false,
        Duration age = {}) {
        const auto saving_step = is_saving ? step : std::nullopt;
        ledger.on_report(node, {step, is_saving, saving_step, age}, start + at);
        return *this;
    }
    /// "productive 3.0, forming 1.0": what is not zero.
    std::string at(Duration moment) const { return shown(ledger.totals(start + moment)); }
    std::string decided_at(Duration moment) const { return shown(ledger.decided(start + moment)); }
    std::string phase() const { return std::string{control::name_of(ledger.phase())}; }

    Ledger ledger{start};

private:
    static std::string shown(const control::Goodput& goodput) {
        std::string text;
        for (std::size_t i = 0; i < control::goodput_phase_count; ++i) {
            const auto phase = static_cast<control::GoodputPhase>(i);
            if (goodput[phase] == Duration{}) continue;
            if (!text.empty()) text += ", ";
            const auto tenths =
                std::chrono::duration_cast<std::chrono::milliseconds>(goodput[phase]).count() / 100;
            text += std::string{control::name_of(phase)} + ' ' + std::to_string(tenths / 10) + '.' +
                    std::to_string(tenths % 10);
        }
        return text;
    }
};

/// Formed in 1 s, started in 2 s, the first step after 4 s more, the third after 9 s.
Account trained() {
    Account job;
    job.enter(1s, State::starting).enter(3s, State::running);
    job.reach(7s, 1).reach(8s, 2).reach(9s, 3);
    return job;
}

}  // namespace

TEST_CASE("each second of a job that reports its steps is in one phase") {
    auto job = trained();
    CHECK(job.at(10s) == "productive 3.0, first_step 4.0, starting 2.0, forming 1.0");
    job.enter(10s, State::draining).enter(12s, State::forming).enter(13s, State::over);
    CHECK(job.at(1h) == "productive 3.0, first_step 4.0, starting 2.0, forming 2.0, draining 2.0");
    CHECK(job.ledger.is_closed());
}

TEST_CASE("steps that an earlier round had done are redone until they are passed") {
    auto job = trained();
    job.enter(10s, State::draining).enter(10s, State::starting, 1).enter(11s, State::running, 1);
    CHECK(job.phase() == "first_step");
    job.reach(12s, 2);
    CHECK(job.phase() == "redone");
    job.reach(13s, 3);
    CHECK(job.phase() == "redone");
    job.reach(14s, 4);
    CHECK(job.phase() == "productive");
    CHECK(job.at(15s) == "productive 4.0, redone 2.0, first_step 5.0, starting 3.0, forming 1.0");

    SUBCASE("a round that ends before it has passed them leaves them to the next one") {
        job.enter(16s, State::starting, 2).enter(16s, State::running, 2).reach(16s, 1);
        job.enter(17s, State::starting, 3).enter(17s, State::running, 3).reach(17s, 4);
        CHECK(job.phase() == "redone");
    }
    SUBCASE("one that has goes on where it was") {
        job.enter(16s, State::starting, 2).enter(16s, State::running, 2).reach(16s, 5);
        CHECK(job.phase() == "productive");
        CHECK(job.ledger.done_step() == 5);
    }
}

TEST_CASE("the slowest node decides which step is done") {
    auto job = trained();
    job.enter(10s, State::starting, 1).enter(10s, State::running, 1);
    job.reach(10s, 4, 0).reach(10s, 3, 1);
    CHECK(job.phase() == "redone");
    CHECK(job.ledger.step() == 3);
    job.reach(11s, 9, 0);
    CHECK(job.phase() == "redone");
    job.reach(12s, 4, 1);
    CHECK(job.phase() == "productive");
    CHECK(job.ledger.step() == 4);
}

TEST_CASE("a save counts while no step is done beside it") {
    auto job = trained();
    job.reach(10s, 3, 0, true);
    CHECK(job.phase() == "saving");
    job.reach(12s, 3, 0, false);
    CHECK(job.phase() == "productive");
    job.reach(13s, 4, 0, true);
    job.reach(14s, 5, 0, true);
    CHECK(job.phase() == "productive");
    // Another node begins a save while all nodes are at the same step.
    job.reach(14s, 5, 1, true).reach(15s, 5, 0);
    CHECK(job.phase() == "saving");
    job.reach(16s, 5, 1);
    CHECK(job.phase() == "productive");
}

TEST_CASE("a save begins at the step of its own rank: what is known of other nodes is older") {
    auto job = trained();
    job.reach(10s, 100, 0).reach(10s, 95, 1);
    job.reach(11s, 100, 0, true);
    CHECK(job.phase() == "saving");
    SUBCASE("one rank saves") {
        job.reach(12s, 100, 1);
        CHECK(job.phase() == "saving");
        job.reach(13s, 100, 0);
        CHECK(job.phase() == "productive");
    }
    SUBCASE("all nodes save") {
        job.reach(11s, 100, 1, true);
        CHECK(job.phase() == "saving");
        job.reach(13s, 100, 0);
        CHECK(job.phase() == "saving");
        job.reach(14s, 100, 1);
        CHECK(job.phase() == "productive");
    }
    SUBCASE("another rank of the node is behind it") {
        job.ledger.on_report(1, {99, true, 100, {}}, start + 11s);
        job.reach(12s, 100, 0).reach(12s, 100, 1, true);
        CHECK(job.phase() == "saving");
    }
    SUBCASE("the steps go on beside it") {
        job.reach(12s, 101, 0, true).reach(12s, 101, 1);
        CHECK(job.phase() == "productive");
    }
    SUBCASE("the counter is set back beside it") {
        job.reach(12s, 0, 1).reach(12s, 0, 0, true);
        CHECK(job.phase() == "productive");
    }
}

TEST_CASE("workers that report no step are unmeasured, which is decided when the round is over") {
    Account job;
    job.enter(1s, State::starting).enter(3s, State::running);
    CHECK(job.at(10s) == "starting 2.0, forming 1.0, unmeasured 7.0");
    CHECK(job.decided_at(10s) == "starting 2.0, forming 1.0");
    SUBCASE("the round ends") {
        job.enter(10s, State::draining);
        CHECK(job.decided_at(10s) == "starting 2.0, forming 1.0, unmeasured 7.0");
        // Nothing is known about the next round either.
        job.enter(10s, State::starting, 1).enter(10s, State::running, 1).reach(12s, 8);
        CHECK(job.decided_at(12s) == "first_step 2.0, starting 2.0, forming 1.0, unmeasured 7.0");
    }
    SUBCASE("a step comes") {
        job.reach(10s, 0);
        CHECK(job.decided_at(10s) == "first_step 7.0, starting 2.0, forming 1.0");
    }
    SUBCASE("saves are reported, and no step") {
        job.reach(10s, std::nullopt, 0, true).reach(12s, std::nullopt);
        CHECK(job.at(13s) == "saving 2.0, starting 2.0, forming 1.0, unmeasured 8.0");
    }
}

TEST_CASE("a hang that was found is neither productive nor a save, while it lasts") {
    auto job = trained();
    job.reach(10s, 3, 0, true).enter(11s, State::hung);
    CHECK(job.phase() == "hung");
    CHECK(job.decided_at(13s) == job.at(13s));
    job.reach(14s, 4);
    CHECK(job.phase() == "hung");
    job.enter(15s, State::running);
    CHECK(job.phase() == "productive");
    CHECK(
        job.at(16s) ==
        "productive 4.0, saving 1.0, hung 4.0, first_step 4.0, starting 2.0, forming 1.0");
}

TEST_CASE("what a report says counts from when it happened, within its interval") {
    auto job = trained();
    job.enter(10s, State::starting, 1).enter(11s, State::running, 1);
    job.reach(12s, 4, 0, false, 400ms);
    CHECK(job.at(12s) == "productive 3.4, first_step 4.6, starting 3.0, forming 1.0");
    job.reach(13s, 4, 0, true, 1h);
    CHECK(job.phase() == "saving");
    CHECK(job.at(13s) == "productive 3.0, saving 1.4, first_step 4.6, starting 3.0, forming 1.0");
}

TEST_CASE("a counter that is set back is counted, and changes no phase") {
    auto job = trained();
    job.reach(10s, 0);
    CHECK(job.phase() == "productive");
    CHECK(job.ledger.reset_count() == 1);
    job.reach(11s, std::uint64_t{1} << 60U).reach(12s, 7);
    CHECK(job.phase() == "productive");
    CHECK(job.ledger.reset_count() == 2);
    // The next round begins after step 7, not after 2^60.
    job.enter(13s, State::starting, 1).enter(13s, State::running, 1).reach(14s, 8);
    CHECK(job.phase() == "productive");
}

TEST_CASE("totals of an earlier server are added, and the time since then is down") {
    control::Goodput earlier;
    earlier[control::GoodputPhase::productive] = 50s;
    earlier[control::GoodputPhase::down] = 1s;
    Account job;
    job.enter(0s, State::down);
    job.ledger.restore(earlier, 10s, start + 2s);
    job.ledger.restore_step(8);
    job.enter(3s, State::running).reach(3s, 8);
    // 1 s before, 8 s without a server, 3 s until this one has the job.
    CHECK(job.at(4s) == "productive 50.0, redone 1.0, down 12.0");

    SUBCASE("of several the longest") {
        earlier[control::GoodputPhase::productive] = 40s;
        job.ledger.restore(earlier, 30s, start + 4s);
        CHECK(job.at(4s) == "productive 50.0, redone 1.0, down 12.0");
        earlier[control::GoodputPhase::productive] = 55s;
        job.ledger.restore(earlier, 6s, start + 4s);
        CHECK(job.at(4s) == "productive 55.0, redone 1.0, down 6.0");
    }
    SUBCASE("a report from the future adds no time") {
        earlier[control::GoodputPhase::productive] = 55s;
        job.ledger.restore(earlier, 0s, start + 4s);
        CHECK(job.at(4s) == "productive 55.0, redone 1.0, down 4.0");
    }
}

TEST_CASE("messages can carry for ever what a peer has stated of an earlier server") {
    control::Goodput earlier;
    earlier[control::GoodputPhase::productive] = limits::longest_restored_goodput - 10s;
    Account job;
    job.enter(0s, State::down);
    SUBCASE("what is too long with its age does not count") {
        job.ledger.restore(earlier, 10s + 1ns, start);
        CHECK(job.at(1s) == "down 1.0");
    }
    SUBCASE("each phase at its highest does not either") {
        earlier.spent.fill(limits::longest_phase);
        job.ledger.restore(earlier, limits::longest_phase, start);
        CHECK(job.at(1s) == "down 1.0");
    }
    SUBCASE("the longest that counts grows to what a message can carry") {
        job.ledger.restore(earlier, 10s, start);
        job.enter(0s, State::running).reach(0s, 1);
        const auto after = [&](Duration length) {
            control::ServerMessageDecoder decoder;
            decoder.append(control::encode(control::ServerMessage{
                control::HeartbeatAck{1, std::nullopt, job.ledger.totals(start + length)}}));
            const auto read = decoder.next();
            REQUIRE(read.has_value());
            REQUIRE(read->has_value());
            return std::get<control::HeartbeatAck>(**read)
                .goodput.value()[control::GoodputPhase::productive];
        };
        CHECK(after(1s) == limits::longest_restored_goodput - 9s);
        CHECK(after(limits::longest_phase) == limits::longest_phase);
    }
}

TEST_CASE("whatever happens the phases sum to the time, and what is decided never decreases") {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        const auto any = [&](int low, int high) {
            return std::uniform_int_distribution<int>{low, high}(random);
        };
        Ledger ledger{start};
        auto now = start;
        int round = 0;
        // The server recovers: members bring what its predecessors had counted.
        ledger.enter(State::down, round, now);
        for (int i = any(0, 3); i > 0; --i) {
            now += Duration{any(0, 1'000'000'007)};
            control::Goodput earlier;
            for (auto& length : earlier.spent)
                length = Duration{any(0, 2'000'000'000)};
            ledger.restore(earlier, Duration{any(0, 2'000'000'000)}, now);
            REQUIRE(ledger.own_time(now) == now - start);
            REQUIRE(ledger.totals(now).sum() >= std::max(earlier.sum(), now - start));
        }
        const auto restored = ledger.totals(now).sum() - (now - start);
        auto before = ledger.decided(now);
        for (int i = 0; i < 300; ++i) {
            now += Duration{any(0, 1'000'000'007)};
            if (any(0, 2) == 0) {
                round += any(0, 3) == 0 ? 1 : 0;
                ledger.enter(static_cast<State>(any(0, 5)), round, now);
            } else {
                const auto step = static_cast<std::uint64_t>(any(0, 9));
                const Ledger::Report report{
                    any(0, 4) == 0 ? std::nullopt : std::optional{step},
                    any(0, 3) == 0,
                    any(0, 1) == 0 ? std::nullopt : std::optional{step},
                    Duration{any(0, 2'000'000'000)}};
                ledger.on_report(static_cast<std::size_t>(any(0, 3)), report, now);
            }
            REQUIRE(ledger.totals(now).sum() == restored + (now - start));
            const auto decided = ledger.decided(now);
            for (std::size_t phase = 0; phase < control::goodput_phase_count; ++phase)
                REQUIRE(decided.spent.at(phase) >= before.spent.at(phase));
            before = decided;
        }
        ledger.enter(State::over, round, now);
        CHECK(ledger.totals(now + 1h).sum() == restored + (now - start));
        CHECK(ledger.decided(now + 1h) == ledger.totals(now));
    }
}
