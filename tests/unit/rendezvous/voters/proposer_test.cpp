// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/proposer.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/voters/voter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::voters;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

namespace {

using P = Proposer;

constexpr Duration ttl = 10s;
const Take take{"host", "host:1", ttl, 0};

/// Processes with the names a, b, c ..., each with a voter and a proposer. What a proposer sends is
/// answered at once, unless the voter is away.
struct Cluster {
    static Nonce nonce_of(char name) { return Nonce{{0, 0, 0, static_cast<std::uint8_t>(name)}}; }
    static const Nonce& lineage() {
        static const Nonce value{{7}};
        return value;
    }
    static std::vector<VoterPlace> places(const std::string& names) {
        std::vector<VoterPlace> all;
        for (const char name : names)
            all.push_back({std::string{name} + ":1", nonce_of(name)});
        return all;
    }

    Instant now{};
    std::map<char, Voter> voters;
    std::map<char, P> proposers;
    /// Those to which there is no connection, and those that do not answer.
    std::set<char> unreached;
    std::set<char> silent;
    /// Those that get `prepare` only.
    std::set<char> without_accept;

    /// A record whose voters are the processes with these names.
    explicit Cluster(const std::string& names) {
        JobRecord record;
        record.lineage = lineage();
        record.voters.voters = places(names);
        for (const char name : std::string{"abcdef"}) {
            voters.emplace(name, Voter{nonce_of(name)});
            proposers.emplace(name, P{{nonce_of(name), "job", lineage(), record.voters}});
        }
        for (const char name : names)
            voters.at(name).handle(Accept{"job", nonce_of(name), {}, record}, now);
    }

    std::vector<P::Effect> handle(char name, P::Event event) {
        std::vector<P::Effect> effects;
        proposers.at(name).handle(std::move(event), now, effects);
        return effects;
    }

    /// The outcome of the operation; none: it waits for answers.
    std::optional<P::Effect> run(char name, Change change) {
        auto effects = handle(name, P::Wanted{1, std::move(change)});
        for (std::size_t i = 0; i < effects.size(); ++i) {
            const auto* const sent = std::get_if<P::Send>(&effects[i]);
            if (sent == nullptr) return effects[i];
            const char to = sent->to.address[0];
            const bool is_accept = std::holds_alternative<Accept>(sent->request);
            if (silent.count(to) != 0) continue;
            P::Event event = P::Unreached{sent->to.nonce};
            if (unreached.count(to) == 0 && !(is_accept && without_accept.count(to) != 0))
                event = P::Answered{sent->to.nonce, voters.at(to).handle(sent->request, now)};
            for (auto& next : handle(name, std::move(event)))
                effects.push_back(std::move(next));
        }
        return std::nullopt;
    }

    /// A lost race is tried again, as a caller would.
    P::Decided decide(char name, const Change& change) {
        auto outcome = run(name, change);
        if (outcome == P::Effect{P::Failed{1, P::Reason::lost_race, false}})
            outcome = run(name, change);
        REQUIRE(outcome.has_value());
        CAPTURE(describe(*outcome));
        REQUIRE(std::holds_alternative<P::Decided>(*outcome));
        return std::get<P::Decided>(*outcome);
    }

    P::Failed fail(char name, Change change) {
        const auto outcome = run(name, std::move(change));
        REQUIRE(outcome.has_value());
        CAPTURE(describe(*outcome));
        REQUIRE(std::holds_alternative<P::Failed>(*outcome));
        return std::get<P::Failed>(*outcome);
    }
};

}  // namespace

TEST_CASE("a free register is taken, and another process reads the leader") {
    Cluster cluster("abc");
    const auto taken = cluster.decide('a', take);
    CHECK(taken.outcome == Outcome::done);
    CHECK(taken.record.epoch == 1);
    CHECK(taken.record.leader == Leader{"host", "host:1", Cluster::nonce_of('a')});
    CHECK(taken.sent_at == cluster.now);
    CHECK(cluster.decide('d', Read{}).record == taken.record);
    CHECK(cluster.decide('b', take).outcome == Outcome::held);
}

TEST_CASE("a leadership that was not renewed for its ttl by a voter's clock is taken by another") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    cluster.now += ttl - 1s;
    const auto renewed = cluster.decide('a', Renew{1});
    CHECK(renewed.outcome == Outcome::done);
    CHECK(renewed.age == 0s);
    cluster.now += ttl - 1ms;
    const auto held = cluster.decide('b', take);
    CHECK(held.outcome == Outcome::held);
    CHECK(held.age == ttl - 1ms);
    cluster.now += 1ms;
    const auto taken = cluster.decide('b', take);
    CHECK(taken.outcome == Outcome::done);
    CHECK(taken.record.epoch == 2);
    CHECK(cluster.decide('a', Renew{1}).outcome == Outcome::not_leader);
}

TEST_CASE("the new epoch is above every one that the process has heard of") {
    Cluster cluster("abc");
    CHECK(cluster.decide('a', Take{"host", "host:1", ttl, 41}).record.epoch == 42);
    CHECK(
        cluster.decide('a', Take{"host", "host:1", ttl, limits::max_voted_number}).outcome ==
        Outcome::no_number_left);
}

TEST_CASE("after a leader has stepped down another one need not wait") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    CHECK(cluster.decide('a', StepDown{1}).record.leader == std::nullopt);
    CHECK(cluster.decide('a', Renew{1}).outcome == Outcome::not_leader);
    CHECK(cluster.decide('b', take).record.epoch == 2);
}

TEST_CASE("a process takes its own earlier leadership at once, under the next epoch") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    CHECK(cluster.decide('a', take).record.epoch == 2);
}

TEST_CASE("a majority is enough, and less is not") {
    Cluster cluster("abc");
    cluster.unreached = {'c'};
    CHECK(cluster.decide('a', take).outcome == Outcome::done);
    cluster.unreached = {'b', 'c'};
    CHECK(cluster.fail('a', Renew{1}) == P::Failed{1, P::Reason::no_majority, false});
    cluster.unreached = {};
    cluster.without_accept = {'b', 'c'};
    CHECK(cluster.fail('a', Renew{1}) == P::Failed{1, P::Reason::no_majority, true});
}

TEST_CASE("an operation whose voters do not answer ends at its deadline") {
    Cluster cluster("abc");
    cluster.silent = {'b', 'c'};
    CHECK(!cluster.run('a', take).has_value());
    const auto deadline = cluster.proposers.at('a').next_deadline();
    CHECK(deadline == cluster.now + limits::vote_timeout);
    CHECK(cluster.handle('a', P::DeadlinePassed{}).empty());
    cluster.now = *deadline;
    const auto effects = cluster.handle('a', P::DeadlinePassed{});
    CHECK(effects == std::vector<P::Effect>{P::Failed{1, P::Reason::no_majority, false}});
    CHECK(!cluster.proposers.at('a').next_deadline());
}

TEST_CASE("a leader that steps down waits for each voter that answers, for a short time only") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    cluster.silent = {'c'};
    CHECK(!cluster.run('a', StepDown{1}).has_value());
    CHECK(cluster.voters.at('b').last_accepted("job")->leader == std::nullopt);
    const auto deadline = cluster.proposers.at('a').next_deadline();
    REQUIRE(deadline.has_value());
    CHECK(*deadline < cluster.now + limits::vote_timeout);
    cluster.now = *deadline;
    const auto effects = cluster.handle('a', P::DeadlinePassed{});
    REQUIRE(effects.size() == 1);
    CHECK(std::get<P::Decided>(effects.front()).outcome == Outcome::done);
    CHECK(!cluster.proposers.at('a').next_deadline());
    // No other operation waits for them.
    CHECK(cluster.decide('a', take).outcome == Outcome::done);
}

TEST_CASE("a lost race is tried again with a higher ballot") {
    Cluster cluster("abc");
    for (int i = 0; i < 5; ++i)
        cluster.decide('b', Read{});
    cluster.decide('b', take);
    // Its first ballot is below those of b.
    CHECK(cluster.fail('a', Read{}) == P::Failed{1, P::Reason::lost_race, false});
    CHECK(cluster.decide('a', Read{}).record.epoch == 1);
}

TEST_CASE("what only one voter has accepted is written again before it is reported") {
    Cluster cluster("abc");
    cluster.without_accept = {'b', 'c'};
    cluster.fail('a', take);
    cluster.without_accept = {};
    const auto read = cluster.decide('a', Read{});
    CHECK(read.record.epoch == 1);
    CHECK(read.ballot.counter == 2);
    cluster.unreached = {'a'};
    CHECK(cluster.fail('b', Read{}).reason == P::Reason::lost_race);
    CHECK(cluster.decide('b', Read{}).record == read.record);
}

TEST_CASE("a renewal that is repeated restarts the age of a voter that has the lost one") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    // Only c gets it.
    cluster.now += 5s;
    cluster.without_accept = {'a', 'b'};
    cluster.fail('a', Renew{1});
    // The next one is decided without c's promise, but c accepts it.
    cluster.now += 5s;
    cluster.without_accept = {};
    auto effects = cluster.handle('a', P::Wanted{2, Renew{1}});
    std::vector<P::Effect> accepts;
    for (const char name : {'a', 'b'}) {
        const auto sent =
            std::find_if(effects.begin(), effects.end(), [&](const P::Effect& effect) {
                return std::get<P::Send>(effect).to.nonce == Cluster::nonce_of(name);
            });
        accepts = cluster.handle(
            'a',
            P::Answered{
                Cluster::nonce_of(name),
                cluster.voters.at(name).handle(std::get<P::Send>(*sent).request, cluster.now)});
    }
    REQUIRE(accepts.size() == 3);
    std::vector<P::Effect> last;
    for (const auto& effect : accepts) {
        const auto& sent = std::get<P::Send>(effect);
        for (auto& next : cluster.handle(
                 'a',
                 P::Answered{
                     sent.to.nonce,
                     cluster.voters.at(sent.to.address[0]).handle(sent.request, cluster.now)}))
            last.push_back(std::move(next));
    }
    REQUIRE(last.size() == 1);
    CHECK(std::get<P::Decided>(last[0]).outcome == Outcome::done);
    // Ten seconds after the lost one, five after the other.
    cluster.now += 5s;
    cluster.unreached = {'a'};
    CHECK(cluster.decide('b', take).outcome == Outcome::held);
}

TEST_CASE("the voters change in two steps, and both must be chosen") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    const auto changed = cluster.decide('a', ChangeVoters{1, Cluster::places("cde")});
    CHECK(changed.outcome == Outcome::done);
    CHECK(changed.record.voters == VoterSet{2, Cluster::places("cde"), {}});
    // The former voters are not needed any more.
    cluster.unreached = {'a', 'b'};
    CHECK(cluster.decide('a', Renew{1}).outcome == Outcome::done);
    // The same again is no change.
    CHECK(cluster.decide('a', ChangeVoters{1, Cluster::places("cde")}).record.voters.version == 2);
    // Another process begins with the outdated voters, of which one is left.
    CHECK(cluster.decide('f', Read{}).record.voters.version == 2);
    CHECK(cluster.proposers.at('f').voters() == changed.record.voters);
}

TEST_CASE("voters that cannot be reached are put into no record") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    cluster.unreached = {'d', 'e'};
    const ChangeVoters change{1, Cluster::places("cde")};
    CHECK(cluster.fail('a', change) == P::Failed{1, P::Reason::no_majority, false});
    CHECK(cluster.decide('a', Renew{1}).record.voters.version == 0);
}

TEST_CASE("a change that an earlier leader has begun needs both majorities, and is completed") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    // The first step reaches a alone, so nothing of it is chosen.
    cluster.without_accept = {'b', 'c', 'd', 'e'};
    cluster.fail('a', ChangeVoters{1, Cluster::places("ade")});
    REQUIRE(cluster.voters.at('a').last_accepted("job")->voters.is_joint());
    cluster.without_accept = {};

    cluster.unreached = {'d', 'e'};
    CHECK(cluster.fail('a', Renew{1}).reason == P::Reason::no_majority);
    cluster.unreached = {'b', 'c'};
    CHECK(cluster.fail('a', Renew{1}).reason == P::Reason::no_majority);
    // Without a, which has it, the voters before choose without it.
    // Without a, which has it, the voters before choose without it.
    cluster.unreached = {'a'};
    CHECK(cluster.decide('b', Read{}).record.voters.version == 0);
    cluster.unreached = {};
    CHECK(cluster.decide('a', Renew{1}).record.voters.is_joint());

    cluster.decide('a', StepDown{1});
    cluster.decide('b', take);
    const auto changed = cluster.decide('b', ChangeVoters{2, Cluster::places("def")});
    CHECK(changed.record.voters == VoterSet{4, Cluster::places("def"), {}});
}

TEST_CASE("a change whose first step may not be chosen writes that again before the second") {
    const JobRecord record{
        Cluster::lineage(),
        Leader{"host", "host:1", Cluster::nonce_of('a')},
        1,
        ttl,
        1,
        jointly({0, Cluster::places("abc"), {}}, Cluster::places("ade"))};
    const ChangeVoters change{1, Cluster::places("ade")};
    const auto first = judge(change, {record, 0s, false}, Cluster::nonce_of('a'), 9);
    CHECK(first.next == record);
    CHECK(first.is_step);
    const auto second = judge(change, {record, 0s, true}, Cluster::nonce_of('a'), 10);
    REQUIRE(second.next.has_value());
    CHECK(second.next->voters == VoterSet{2, Cluster::places("ade"), {}});
    CHECK(!second.is_step);
    // A change of the voters is no renewal.
    CHECK(is_same_renewal(*second.next, record));
}

TEST_CASE("an end that the leader has recorded is in every later record") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    cluster.now += 3s;
    const auto recorded = cluster.decide('a', RecordEnd{1, "first"});
    CHECK(recorded.outcome == Outcome::done);
    CHECK(recorded.record.ends == "first");
    // It is no renewal.
    CHECK(recorded.age == 3s);
    // The same again is no change.
    CHECK(cluster.decide('a', RecordEnd{1, "first"}).ballot == recorded.ballot);

    cluster.decide('a', Renew{1});
    cluster.decide('a', ChangeVoters{1, Cluster::places("bcd")});
    cluster.decide('a', StepDown{1});
    cluster.unreached = {'a'};
    CHECK(cluster.decide('d', take).record.ends == "first");
    CHECK(cluster.decide('d', RecordEnd{2, "first second"}).outcome == Outcome::done);
    CHECK(cluster.decide('b', Read{}).record.ends == "first second");
}

TEST_CASE("an end of which a majority has not heard is not recorded, and can be again") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    cluster.without_accept = {'b', 'c'};
    CHECK(cluster.fail('a', RecordEnd{1, "end"}) == P::Failed{1, P::Reason::no_majority, true});
    cluster.without_accept = {};
    cluster.unreached = {'a'};
    CHECK(cluster.decide('b', Read{}).record.ends.empty());
    cluster.unreached = {};
    CHECK(cluster.decide('a', RecordEnd{1, "end"}).outcome == Outcome::done);
    cluster.unreached = {'a'};
    CHECK(cluster.decide('c', Read{}).record.ends == "end");
}

TEST_CASE("only the leader changes the voters, records an end or steps down") {
    Cluster cluster("abc");
    cluster.decide('a', take);
    CHECK(
        cluster.decide('b', ChangeVoters{1, Cluster::places("ab")}).outcome == Outcome::not_leader);
    CHECK(cluster.decide('b', RecordEnd{1, "end"}).outcome == Outcome::not_leader);
    CHECK(cluster.decide('a', RecordEnd{2, "end"}).outcome == Outcome::not_leader);
    CHECK(cluster.decide('a', StepDown{2}).outcome == Outcome::not_leader);
    CHECK(cluster.decide('b', Read{}).record.ends.empty());
}

TEST_CASE("what no record may have is refused before any voter is asked") {
    Cluster cluster("abc");
    const std::vector<Change> bad{
        Take{"", "host:1", ttl, 0},
        Take{"host", "\x01", ttl, 0},
        Take{"host", "host:1", 0s, 0},
        Take{"host", "host:1", limits::longest_lease + 1s, 0},
        ChangeVoters{1, {}},
        ChangeVoters{1, Cluster::places("aa")},
        ChangeVoters{1, Cluster::places("abcdef")},
        ChangeVoters{1, {{"", Cluster::nonce_of('a')}}},
        RecordEnd{1, std::string(limits::max_end_record_bytes + 1, 'e')},
    };
    for (const auto& change : bad)
        CHECK(
            cluster.handle('a', P::Wanted{3, change}) ==
            std::vector<P::Effect>{P::Failed{3, P::Reason::bad_change, false}});
}

TEST_CASE("voters without a record elect no leader") {
    Cluster cluster("");
    cluster.proposers.at('a') =
        P{{Cluster::nonce_of('a'), "job", Cluster::lineage(), {0, Cluster::places("ab"), {}}}};
    CHECK(cluster.fail('a', take) == P::Failed{1, P::Reason::no_record, false});
}

TEST_CASE("a proposer to which the highest ballot was reported uses none above it") {
    Cluster cluster("a");
    const Ballot last{limits::max_voted_number, Cluster::nonce_of('b')};
    cluster.voters.at('a').handle(
        Prepare{"job", Cluster::lineage(), Cluster::nonce_of('a'), last}, cluster.now);
    CHECK(cluster.fail('a', Read{}).reason == P::Reason::lost_race);
    CHECK(cluster.fail('a', Read{}).reason == P::Reason::no_ballot_left);
}

TEST_CASE("the proposer: every event in every state") {
    const Nonce b = Cluster::nonce_of('b');
    const Nonce c = Cluster::nonce_of('c');
    enum class State { idle, preparing, accepting };
    for (const auto state : {State::idle, State::preparing, State::accepting}) {
        CAPTURE(static_cast<int>(state));
        Cluster cluster("abc");
        Ballot ballot{1, Cluster::nonce_of('a')};
        const Vote vote{{}, *cluster.voters.at('b').last_accepted("job"), 0s};
        if (state != State::idle) cluster.handle('a', P::Wanted{1, take});
        if (state == State::accepting) {
            cluster.handle('a', P::Answered{Cluster::nonce_of('a'), Promise{ballot, vote}});
            CHECK(cluster.handle('a', P::Answered{b, Promise{ballot, vote}}).size() == 3);
        }
        const bool is_idle = state == State::idle;
        // Events of no effect: of other ballots, other voters, the other phase, and early ones.
        const Ballot other{9, b};
        for (const Ballot& of : {other, Ballot{}})
            for (const Answer& answer :
                 {Answer{Promise{of, vote}},
                  Answer{Accepted{of}},
                  Answer{Refused{of, other}},
                  Answer{Unknown{of}}})
                CHECK(cluster.handle('a', P::Answered{b, answer}).empty());
        CHECK(cluster.handle('a', P::Answered{Cluster::nonce_of('f'), Unknown{ballot}}).empty());
        CHECK(cluster.handle('a', P::DeadlinePassed{}).empty());
        if (state != State::accepting)
            CHECK(cluster.handle('a', P::Answered{b, Accepted{ballot}}).empty());
        if (state != State::preparing)
            CHECK(cluster.handle('a', P::Answered{b, Promise{ballot, vote}}).empty());
        // A second operation waits for the first.
        if (!is_idle)
            CHECK(
                cluster.handle('a', P::Wanted{2, Read{}}) ==
                std::vector<P::Effect>{P::Failed{2, P::Reason::busy, false}});
        // One of three that is missing decides nothing, the second one does, once.
        CHECK(cluster.handle('a', P::Unreached{c}).empty());
        CHECK(cluster.handle('a', P::Unreached{c}).empty());
        const auto end = cluster.handle('a', P::Answered{b, Refused{ballot, other}});
        CHECK(end.size() == (is_idle ? 0 : 1));
        if (!is_idle)
            CHECK(
                end[0] == P::Effect{P::Failed{1, P::Reason::lost_race, state == State::accepting}});
        CHECK(cluster.handle('a', P::Unreached{b}).empty());
        CHECK(!cluster.proposers.at('a').next_deadline());
        CHECK(cluster.handle('a', P::Wanted{4, Read{}}).size() == 3);
    }
}
