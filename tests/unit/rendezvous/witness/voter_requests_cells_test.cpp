// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/voter_requests.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::witness;

namespace {

using V = VoterRequests;

enum class State : std::uint8_t {
    without_voters,
    idle,
    proposing,
    pausing,
};

Nonce process(std::uint8_t number) {
    return Nonce{{0, 0, 0, number}};
}

control::Voters three_voters(const Nonce& lineage) {
    control::Voters known{lineage};
    for (std::uint8_t number = 1; number <= 3; ++number)
        known.set.voters.push_back({"10.0.0.1:" + std::to_string(number), process(number)});
    return known;
}

/// One process, whose own voter does not answer unless the test does so.
struct OneProcess {
    Instant now{};
    Random random{1};
    V requests{{process(1), "job", "host"}, random};
    std::map<int, int> answers;
    std::vector<voters::VoterPlace> asked;
    voters::Ballot ballot;

    explicit OneProcess(State state) {
        if (state == State::without_voters) return;
        handle(V::Known{three_voters(process(9))});
        if (state == State::idle) return;
        handle(V::Asked{1, ReadRecord{}});
        if (state == State::proposing) return;
        refuse();
        CHECK(asked.empty());
    }

    void handle(V::Event event) {
        std::vector<V::Effect> effects;
        requests.handle(std::move(event), now, effects);
        for (const auto& effect : effects) {
            CHECK_FALSE(describe(effect).empty());
            if (const auto* send = std::get_if<V::Send>(&effect)) {
                asked.push_back(send->to);
                std::visit([&](const auto& request) { ballot = request.ballot; }, send->request);
            } else if (const auto* replied = std::get_if<V::Replied>(&effect)) {
                ++answers[replied->request];
            } else {
                ++answers[std::get<V::Changed>(effect).request];
            }
        }
    }

    /// Two voters have promised more to another process, which is there again and again.
    void refuse() {
        for (const auto& voter : std::exchange(asked, {}))
            if (voter.nonce != process(3))
                handle(V::Answered{
                    voter.nonce, voters::Refused{ballot, {ballot.counter + 7, process(2)}}});
        asked.clear();
    }

    void pass_time() {
        const auto due = requests.next_deadline();
        REQUIRE(due.has_value());
        now = std::max(now, *due);
        handle(V::DeadlinePassed{});
    }
};

std::vector<V::Event> every_event(int request) {
    const Candidacy candidacy{{"10.0.0.1:29400", process(1).to_string(), 1}, 10};
    const voters::Ballot other{3, process(2)};
    return {
        V::Asked{request, ReadRecord{}},
        V::Asked{request, GrantLease{10}},
        V::Asked{request, Campaign{candidacy, 0}},
        V::Asked{request, KeepLease{candidacy}},
        V::Asked{request, Revoke{candidacy}},
        V::Asked{request, RecordEnd{candidacy, "ended", 10}},
        V::Asked{request, Erase{candidacy}},
        V::VotersWanted{request, {1, {{"10.0.0.1:1", process(1)}}}},
        V::Known{three_voters(process(9))},
        V::Known{three_voters(process(8))},
        V::Known{control::Voters{process(9)}},
        V::Answered{process(2), voters::Unknown{other}},
        V::Answered{process(2), voters::Accepted{other}},
        V::Answered{process(7), voters::Refused{other, other}},
        V::Unreached{process(7)},
        V::Unreached{process(3)},
        V::Unreached{process(3), true},
        V::DeadlinePassed{},
    };
}

}  // namespace

TEST_CASE("the requests to voters: every event in every state") {
    constexpr int request = 2;
    for (const auto state : {State::without_voters, State::idle, State::proposing, State::pausing})
        for (const auto& event : every_event(request)) {
            CAPTURE(static_cast<int>(state));
            CAPTURE(describe(event));
            OneProcess one(state);
            const auto voters = one.requests.known();
            const bool is_request = std::holds_alternative<V::Asked>(event) ||
                                    std::holds_alternative<V::VotersWanted>(event);
            one.handle(event);

            // The first lineage that was known is kept.
            if (voters) CHECK(one.requests.known() == voters);
            if (!is_request && state != State::proposing) CHECK(one.asked.empty());
            // No voter decides anything: what was requested is answered once, with a failure, when
            // its time is up, and nothing is left to do.
            while (one.requests.next_deadline())
                one.pass_time();
            CHECK(one.answers[request] == (is_request ? 1 : 0));
            const bool was_asked = state == State::proposing || state == State::pausing;
            CHECK(one.answers[1] == (was_asked ? 1 : 0));
            CHECK(one.answers.size() == 2);
            CHECK(one.now <= Instant{} + std::chrono::seconds{10});
        }
}
