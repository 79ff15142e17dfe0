// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/witness/voter_requests.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/voters/voter.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::witness;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

namespace {

using V = VoterRequests;

constexpr std::int64_t ttl_s = 10;
constexpr Duration ttl = std::chrono::seconds{ttl_s};
constexpr std::int64_t end_lease = 86'400;
const Nonce lineage{{7}};

Nonce nonce_of(char name) {
    return Nonce{{0, 0, 0, static_cast<std::uint8_t>(name)}};
}

std::vector<voters::VoterPlace> places(const std::string& names) {
    std::vector<voters::VoterPlace> all;
    for (const char name : names)
        all.push_back({std::string{name} + ":1", nonce_of(name)});
    return all;
}

Candidacy candidacy(char name, std::uint64_t epoch) {
    return {{std::string{name} + ":29400", nonce_of(name).to_string(), epoch}, ttl_s};
}

/// Processes with the names a, b, c ..., each with a voter and its requests. What is sent is
/// answered at once, unless the voter is away.
struct Processes {
    Instant now{};
    std::map<char, Random> randoms;
    std::map<char, voters::Voter> voters;
    std::map<char, V> requests;
    /// Those to which there is no connection, those whose process has ended, and those that do not
    /// answer.
    std::set<char> unreached;
    std::set<char> ended;
    std::set<char> silent;
    /// Those that get `prepare` only, and those whose answer to `accept` is lost.
    std::set<char> without_accept;
    std::set<char> without_accepted;
    std::map<int, Result<LeaseAnswer>> replied;
    std::map<int, Result<control::Voters>> changed;
    /// The numbers of what was answered, in that order.
    std::vector<int> order;
    int last_request = 0;

    /// A record that no process leads yet, and whose voters have these names.
    explicit Processes(const std::string& names) {
        voters::JobRecord record;
        record.lineage = lineage;
        record.voters.voters = places(names);
        for (const char name : names) {
            start(name);
            voters.at(name).handle(voters::Accept{"job", nonce_of(name), {}, record}, now);
        }
        for (const char name : names)
            handle(name, V::Known{{lineage, {}, record.voters}});
    }

    void start(char name) {
        voters.emplace(name, voters::Voter{nonce_of(name)});
        randoms.emplace(name, Random{static_cast<std::uint64_t>(name)});
        requests.emplace(name, V{{nonce_of(name), "job", "host"}, randoms.at(name)});
    }

    void handle(char name, V::Event event) {
        std::vector<V::Effect> effects;
        requests.at(name).handle(std::move(event), now, effects);
        std::deque<V::Event> events;
        for (auto& effect : effects) {
            if (auto* reply = std::get_if<V::Replied>(&effect)) {
                order.push_back(reply->request);
                replied.emplace(reply->request, std::move(reply->answer));
            } else if (auto* change = std::get_if<V::Changed>(&effect)) {
                order.push_back(change->request);
                changed.emplace(change->request, std::move(change->voters));
            } else {
                send(std::get<V::Send>(effect), events);
            }
        }
        for (auto& next : events)
            handle(name, std::move(next));
    }

    void send(const V::Send& sent, std::deque<V::Event>& events) {
        const char to = sent.to.address[0];
        const bool is_accept = std::holds_alternative<voters::Accept>(sent.request);
        if (silent.contains(to)) return;
        if (unreached.contains(to) || ended.contains(to) ||
            (is_accept && without_accept.contains(to))) {
            events.emplace_back(V::Unreached{sent.to.nonce, ended.contains(to)});
            return;
        }
        auto answer = voters.at(to).handle(sent.request, now);
        if (is_accept && without_accepted.contains(to))
            events.emplace_back(V::Unreached{sent.to.nonce});
        else
            events.emplace_back(V::Answered{sent.to.nonce, std::move(answer)});
    }

    int begin(char name, LeaseRequest request) {
        handle(name, V::Asked{++last_request, std::move(request)});
        return last_request;
    }
    /// Lets the time pass, step by step, until it is answered.
    template <class Answers>
    void wait(char name, int request, const Answers& answers) {
        while (!answers.contains(request)) {
            const auto next = requests.at(name).next_deadline();
            REQUIRE(next.has_value());
            now = std::max(now, *next);
            handle(name, V::DeadlinePassed{});
        }
    }
    Result<LeaseAnswer> result(char name, LeaseRequest request) {
        const int number = begin(name, std::move(request));
        wait(name, number, replied);
        return replied.at(number);
    }
    template <class Answer>
    Answer ask(char name, LeaseRequest request) {
        const auto answer = result(name, std::move(request));
        REQUIRE_MESSAGE(answer.has_value(), answer.error().describe());
        return std::get<Answer>(*answer);
    }
    Failure fail(char name, LeaseRequest request) {
        const auto answer = result(name, std::move(request));
        REQUIRE_FALSE(answer.has_value());
        return answer.error();
    }
    Result<control::Voters> change(char name, std::uint64_t epoch, const std::string& names) {
        handle(name, V::VotersWanted{++last_request, {epoch, places(names)}});
        const int number = last_request;
        wait(name, number, changed);
        return changed.at(number);
    }
    bool elect(char name, std::uint64_t epoch) {
        return ask<Campaigned>(name, Campaign{candidacy(name, epoch)}).is_won;
    }
    Record read(char name) { return ask<Record>(name, ReadRecord{}); }
};

}  // namespace

TEST_CASE("voters elect a leader, whose record others read, and which steps down") {
    Processes all("abc");
    CHECK_FALSE(all.read('b').held);
    CHECK(all.ask<Grant>('a', GrantLease{ttl_s}).lease == ttl_s);
    CHECK(all.elect('a', 1));
    const auto read = all.read('b');
    REQUIRE(read.held);
    CHECK(read.held->leader == candidacy('a', 1).leader);
    CHECK(read.held->lease == ttl_s);
    CHECK(read.epoch == 1);
    CHECK(all.ask<Kept>('a', KeepLease{candidacy('a', 1)}).ttl_s == ttl_s);

    all.ask<Done>('a', Revoke{candidacy('a', 1)});
    CHECK_FALSE(all.read('b').held);
    CHECK(all.read('b').epoch == 1);
    CHECK(all.ask<Kept>('a', KeepLease{candidacy('a', 1)}).ttl_s == 0);
    CHECK(all.elect('b', 2));
    all.ask<Done>('b', Erase{candidacy('b', 2)});
    CHECK_FALSE(all.read('a').held);
}

TEST_CASE("a candidate that comes second gets the leader's record") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    const auto lost = all.ask<Campaigned>('b', Campaign{candidacy('b', 2)});
    CHECK_FALSE(lost.is_won);
    REQUIRE(lost.record.held);
    CHECK(lost.record.held->leader.nonce == nonce_of('a').to_string());
}

TEST_CASE("the record is lost when most of its voters have ended, and not when they are away") {
    Processes all("abc");
    all.unreached = {'b', 'c'};
    all.fail('a', ReadRecord{});
    CHECK_FALSE(all.requests.at('a').is_lost());
    all.unreached = {'c'};
    all.ended = {'b'};
    all.fail('a', ReadRecord{});
    CHECK_FALSE(all.requests.at('a').is_lost());
    all.ended = {'b', 'c'};
    all.fail('a', ReadRecord{});
    CHECK(all.requests.at('a').is_lost());

    // Others have changed the voters before.
    all.handle('a', V::Known{{lineage, {9, nonce_of('b')}, {2, places("ade"), places("abc")}}});
    CHECK_FALSE(all.requests.at('a').is_lost());
    all.ended = {'b', 'c', 'd', 'e'};
    all.fail('a', ReadRecord{});
    CHECK(all.requests.at('a').is_lost());
    all.handle('a', V::Known{{lineage, {10, nonce_of('b')}, {4, places("afg"), {}}}});
    CHECK_FALSE(all.requests.at('a').is_lost());
}

TEST_CASE("a leader that does not renew is none after the ttl, and one of the others follows") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    all.unreached = {'a'};
    all.now += ttl - 1s;
    CHECK(all.read('b').held);
    CHECK_FALSE(all.elect('b', 2));
    all.now += 1s;
    CHECK_FALSE(all.read('b').held);
    CHECK(all.elect('b', 2));
    CHECK(all.read('c').held->leader.epoch == 2);
    all.unreached = {};
    CHECK(all.ask<Kept>('a', KeepLease{candidacy('a', 1)}).ttl_s == 0);
}

TEST_CASE("an election with another epoch than was asked for is reported as an own one, not won") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    all.ask<Done>('a', Revoke{candidacy('a', 1)});
    // b has read the record before.
    const auto lost = all.ask<Campaigned>('b', Campaign{candidacy('b', 1)});
    CHECK_FALSE(lost.is_won);
    REQUIRE(lost.record.held);
    CHECK(lost.record.held->leader == Leader{"b:29400", nonce_of('b').to_string(), 2});
    all.ask<Done>('b', Revoke{*lost.record.held});
    CHECK_FALSE(all.read('a').held);
}

TEST_CASE("a defeated proposal is tried again after a pause that differs between processes") {
    Processes all("abc");
    std::map<char, Instant> tries;
    for (const char name : std::string{"ab"}) {
        all.silent = {'a', 'b', 'c'};
        const int request = all.begin(name, ReadRecord{});
        const auto refuse = [&](char voter) {
            const voters::Ballot own{1, nonce_of(name)};
            all.handle(
                name, V::Answered{nonce_of(voter), voters::Refused{own, {8, nonce_of('c')}}});
        };
        refuse('a');
        CHECK(all.requests.at(name).next_deadline() == all.now + limits::vote_timeout);
        refuse('b');
        CHECK_FALSE(all.replied.contains(request));
        tries[name] = all.requests.at(name).next_deadline().value();
        CHECK(tries[name] > all.now);
        CHECK(tries[name] <= all.now + 50ms);
    }
    CHECK(tries['a'] != tries['b']);
    all.silent = {};
    all.wait('a', 1, all.replied);
    CHECK(all.replied.at(1).has_value());
}

TEST_CASE("a request without a majority fails in the time that its caller waits") {
    Processes all("abc");
    for (auto* away : {&all.unreached, &all.silent}) {
        *away = {'b', 'c'};
        const auto begin = all.now;
        CHECK(all.fail('a', ReadRecord{}).context == "no majority of the job's voters answers");
        CHECK(all.now - begin <= limits::etcd_answer_timeout);
        CHECK(all.now - begin > limits::etcd_answer_timeout - limits::vote_timeout - 1s);
        away->clear();
    }
    CHECK_FALSE(all.read('a').held);
}

TEST_CASE("the leader of a job that is over does not wait for voters that are gone") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    all.unreached = {'b', 'c'};
    const auto begin = all.now;
    CHECK(all.fail('a', Erase{candidacy('a', 1)}).code == system_code(EHOSTUNREACH));
    CHECK(all.now == begin);
}

TEST_CASE("a campaign whose attempt may have succeeded is read before it is tried again") {
    Processes all("abc");
    SUBCASE("it has succeeded") {
        all.without_accepted = {'a', 'b', 'c'};
        const int campaign = all.begin('a', Campaign{candidacy('a', 1)});
        all.without_accepted = {};
        CHECK_FALSE(all.replied.contains(campaign));
        all.wait('a', campaign, all.replied);
        CHECK(std::get<Campaigned>(*all.replied.at(campaign)).is_won);
        CHECK(all.read('b').held->leader.epoch == 1);
    }
    SUBCASE("it has not: it is proposed again") {
        all.without_accept = {'a', 'b', 'c'};
        const int campaign = all.begin('a', Campaign{candidacy('a', 1)});
        all.without_accept = {};
        all.wait('a', campaign, all.replied);
        CHECK(std::get<Campaigned>(*all.replied.at(campaign)).is_won);
        CHECK(all.read('b').held->leader.epoch == 1);
    }
    SUBCASE("another node was elected meanwhile") {
        all.without_accept = {'a', 'b', 'c'};
        const int campaign = all.begin('a', Campaign{candidacy('a', 1)});
        all.without_accept = {};
        CHECK(all.elect('b', 1));
        all.wait('a', campaign, all.replied);
        const auto lost = std::get<Campaigned>(*all.replied.at(campaign));
        CHECK_FALSE(lost.is_won);
        CHECK(lost.record.held->leader.nonce == nonce_of('b').to_string());
    }
}

TEST_CASE("the leader changes the voters, and every process gets along with the new ones") {
    Processes all("a");
    for (const char name : std::string{"bcd"})
        all.start(name);
    CHECK(all.fail('b', ReadRecord{}).context == "the job's voters are not known yet");
    CHECK(all.change('a', 1, "abc").error().context == "this node does not lead any more");
    CHECK(all.elect('a', 1));
    const auto changed = all.change('a', 1, "abc");
    REQUIRE(changed.has_value());
    CHECK(changed->lineage == lineage);
    CHECK(changed->set == voters::VoterSet{2, places("abc"), {}});
    CHECK(all.requests.at('a').known() == *changed);

    all.handle('d', V::Known{*changed});
    all.unreached = {'a'};
    CHECK(all.read('d').held->leader.epoch == 1);
    CHECK(all.change('d', 1, "abcd").error().context == "this node does not lead any more");
    CHECK(all.change('d', 1, "").error().code == system_code(EINVAL));
}

TEST_CASE("older voters, another lineage and impossible voters change nothing that is known") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    const auto known = all.change('a', 1, "ab").value();
    auto other = known;
    SUBCASE("an older record") {
        other.ballot = {0, nonce_of('a')};
    }
    SUBCASE("another lineage") {
        other.lineage = Nonce{{8}};
    }
    SUBCASE("no voters") {
        other.ballot.counter += 1;
    }
    other.set.voters =
        other.lineage == known.lineage && other.ballot.counter > 0 ? places("") : places("c");
    all.handle('a', V::Known{other});
    CHECK(all.requests.at('a').known() == known);
}

TEST_CASE("a newer request replaces the open one, and begins when its attempt has ended") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    all.silent = {'b', 'c'};
    const int keep = all.begin('a', KeepLease{candidacy('a', 1)});
    const auto ends_at = all.requests.at('a').next_deadline();
    const int revoke = all.begin('a', Revoke{candidacy('a', 1)});
    CHECK(all.replied.at(keep).error().code == system_code(ECANCELED));
    all.silent = {};
    CHECK(all.requests.at('a').next_deadline() == ends_at);
    all.wait('a', revoke, all.replied);
    CHECK(std::holds_alternative<Done>(*all.replied.at(revoke)));
    CHECK_FALSE(all.read('b').held);
}

TEST_CASE("a renewal comes before a change of the voters that waits") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    all.silent = {'b', 'c'};
    const int read = all.begin('a', ReadRecord{});
    all.handle('a', V::VotersWanted{++all.last_request, {1, places("ab")}});
    const int change = all.last_request;
    const int keep = all.begin('a', KeepLease{candidacy('a', 1)});
    all.silent = {};
    all.order.clear();
    all.wait('a', change, all.changed);
    CHECK(all.changed.at(change).has_value());
    CHECK(all.replied.at(keep).has_value());
    CHECK_FALSE(all.replied.at(read).has_value());
    CHECK(all.order == std::vector{keep, change});
}

TEST_CASE("how a job ended is kept by the voters, and goes to the next leader") {
    Processes all("abc");
    CHECK(all.ask<Campaigned>('a', Campaign{candidacy('a', 1)}).ended.empty());
    const std::string ended{"\0\n\xff", 3};
    const auto recorded = [&](char name, std::uint64_t epoch) {
        return all.ask<EndStored>(name, RecordEnd{candidacy(name, epoch), ended, end_lease})
            .is_stored;
    };
    CHECK(all.ask<Grant>('a', GrantLease{end_lease}).lease == end_lease);
    CHECK_FALSE(recorded('b', 1));
    CHECK_FALSE(recorded('a', 2));
    SUBCASE("the leader has stepped down") {
        CHECK(recorded('a', 1));
        all.ask<Done>('a', Revoke{candidacy('a', 1)});
        CHECK_FALSE(recorded('a', 1));
    }
    SUBCASE("the job was over") {
        CHECK(recorded('a', 1));
        all.ask<Done>('a', Erase{candidacy('a', 1)});
    }
    SUBCASE("the leader is lost") {
        CHECK(recorded('a', 1));
        all.unreached = {'a'};
        all.now += ttl;
    }
    SUBCASE("one of two others had not heard of it") {
        all.without_accept = {'c'};
        CHECK(recorded('a', 1));
        all.without_accept = {};
        all.ask<Done>('a', Revoke{candidacy('a', 1)});
        all.unreached = {'b'};
    }
    CHECK(all.ask<Campaigned>('c', Campaign{candidacy('c', 2)}).ended == ended);
}

TEST_CASE("an end of which no majority has heard is not reported as kept") {
    Processes all("abc");
    CHECK(all.elect('a', 1));
    all.without_accept = {'b', 'c'};
    CHECK(
        all.fail('a', RecordEnd{candidacy('a', 1), "end", end_lease}).context ==
        "no majority of the job's voters answers");
}
