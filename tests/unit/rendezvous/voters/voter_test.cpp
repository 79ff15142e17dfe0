// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/voter.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <string>
#include <variant>

using namespace ddprun;
using namespace ddprun::voters;
using std::chrono_literals::operator""s;

namespace {

Nonce nonce(std::uint8_t last) {
    return Nonce{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

const Nonce own = nonce(1);
const Nonce leader = nonce(2);
const Nonce lineage = nonce(9);

Prepare prepare(std::uint64_t counter) {
    return {"job", lineage, own, {counter, leader}};
}

JobRecord record_of(std::uint64_t epoch, std::uint64_t renewed) {
    return {lineage, Leader{"b", "b:1", leader}, epoch, 10s, renewed, {0, {{"a:1", own}}, {}}};
}

Accept accept(std::uint64_t counter, const JobRecord& record) {
    return {"job", own, {counter, leader}, record};
}

Duration age_at(Voter& voter, Instant now) {
    const auto answer = voter.handle(prepare(100), now);
    return std::get<Promise>(answer).vote->age;
}

}  // namespace

TEST_CASE("the first voter of a job creates its record, once") {
    Voter voter(own);
    CHECK(voter.last_accepted("job") == nullptr);
    CHECK(voter.create("job", lineage, "a:1", Instant{}));
    CHECK(!voter.create("job", nonce(8), "a:1", Instant{}));
    JobRecord created;
    created.lineage = lineage;
    created.voters.voters = {{"a:1", own}};
    CHECK(*voter.last_accepted("job") == created);
    const auto answer = voter.handle(prepare(1), Instant{} + 3s);
    CHECK(answer == Answer{Promise{{1, leader}, Vote{{0, own}, created, 3s}}});
}

TEST_CASE("a process that has voted about a job creates no record of it") {
    Voter voter(own);
    CHECK(voter.handle(prepare(1), Instant{}) == Answer{Promise{{1, leader}, std::nullopt}});
    CHECK(!voter.create("job", lineage, "a:1", Instant{}));
    CHECK(voter.last_accepted("job") == nullptr);
}

TEST_CASE("a voter refuses ballots below the one that it has promised, and takes it twice") {
    Voter voter(own);
    voter.handle(prepare(5), Instant{});
    const Answer refused{Refused{{4, leader}, {5, leader}}};
    CHECK(voter.handle(prepare(4), Instant{}) == refused);
    CHECK(voter.handle(accept(4, record_of(1, 4)), Instant{}) == refused);
    CHECK(std::holds_alternative<Promise>(voter.handle(prepare(5), Instant{})));
    CHECK(voter.handle(accept(5, record_of(1, 5)), Instant{}) == Answer{Accepted{{5, leader}}});
    CHECK(voter.handle(accept(5, record_of(1, 5)), Instant{}) == Answer{Accepted{{5, leader}}});
    // What it accepts is a promise too.
    CHECK(voter.handle(accept(7, record_of(1, 7)), Instant{}) == Answer{Accepted{{7, leader}}});
    CHECK(std::holds_alternative<Refused>(voter.handle(prepare(6), Instant{})));
}

TEST_CASE("the age counts from the election or renewal, whichever proposer writes it again") {
    Voter voter(own);
    voter.handle(accept(1, record_of(1, 1)), Instant{});
    CHECK(age_at(voter, Instant{} + 2s) == 2s);
    // The same one under another ballot, with other voters.
    auto again = record_of(1, 1);
    again.voters = jointly(again.voters, {{"c:1", nonce(3)}});
    voter.handle(accept(101, again), Instant{} + 3s);
    CHECK(std::get<Promise>(voter.handle(prepare(102), Instant{} + 4s)).vote->age == 4s);
    voter.handle(accept(103, record_of(1, 103)), Instant{} + 5s);
    CHECK(std::get<Promise>(voter.handle(prepare(104), Instant{} + 6s)).vote->age == 1s);
    voter.handle(accept(105, record_of(2, 103)), Instant{} + 7s);
    CHECK(std::get<Promise>(voter.handle(prepare(106), Instant{} + 9s)).vote->age == 2s);
    auto free = record_of(2, 103);
    free.leader.reset();
    voter.handle(accept(107, free), Instant{} + 10s);
    CHECK(std::get<Promise>(voter.handle(prepare(108), Instant{} + 11s)).vote->age == 1s);
}

TEST_CASE("a process answers only as the voter that is asked, and for the lineage that it knows") {
    Voter voter(own);
    auto other = prepare(1);
    other.voter = nonce(4);
    CHECK(voter.handle(other, Instant{}) == Answer{Unknown{{1, leader}}});
    voter.create("job", lineage, "a:1", Instant{});
    other = prepare(1);
    other.lineage = nonce(8);
    CHECK(voter.handle(other, Instant{}) == Answer{Unknown{{1, leader}}});
    auto value = record_of(1, 1);
    value.voters.voters = {{"c:1", nonce(3)}};
    CHECK(voter.handle(accept(1, value), Instant{}) == Answer{Unknown{{1, leader}}});
    CHECK(voter.last_accepted("job")->epoch == 0);
}

TEST_CASE("a process whose node has another nonce answers under both, and keeps its promises") {
    Voter voter(own);
    voter.handle(accept(5, record_of(1, 5)), Instant{});
    voter.add_name(nonce(4));
    CHECK(voter.is_own(own));
    CHECK(voter.is_own(nonce(4)));
    auto renamed = prepare(4);
    renamed.voter = nonce(4);
    CHECK(voter.handle(renamed, Instant{}) == Answer{Refused{{4, leader}, {5, leader}}});
    renamed.ballot.counter = 6;
    CHECK(std::get<Promise>(voter.handle(renamed, Instant{})).vote->record == record_of(1, 5));
    CHECK(
        voter.handle(accept(5, record_of(1, 5)), Instant{}) ==
        Answer{Refused{{5, leader}, {6, leader}}});
    // The record has its earlier nonce only.
    auto other = accept(7, record_of(1, 7));
    other.voter = nonce(4);
    CHECK(voter.handle(other, Instant{}) == Answer{Unknown{{7, leader}}});
    other.record.voters = jointly(other.record.voters, {{"a:1", nonce(4)}});
    CHECK(voter.handle(other, Instant{}) == Answer{Accepted{{7, leader}}});
    CHECK(
        voter.handle(accept(6, record_of(1, 6)), Instant{}) ==
        Answer{Refused{{6, leader}, {7, leader}}});
}

TEST_CASE("of very many nonces of a process the oldest ends, but never its first one") {
    const auto numbered = [](int number) {
        const auto digits = std::to_string(number);
        return *Nonce::parse(std::string(32 - digits.size(), '0') + digits);
    };
    Voter voter(own);
    for (int number = 1'001; number < 2'000; ++number)
        voter.add_name(numbered(number));
    voter.add_name(numbered(1'999));
    CHECK(voter.is_own(numbered(1'001)));
    voter.add_name(numbered(2'000));
    CHECK(voter.is_own(own));
    CHECK(!voter.is_own(numbered(1'001)));
    CHECK(voter.is_own(numbered(1'002)));
    CHECK(voter.names().back() == numbered(2'000));
}

TEST_CASE("a process votes about a bounded number of jobs") {
    Voter voter(own);
    auto request = prepare(1);
    for (std::size_t i = 0; i < limits::max_voted_jobs; ++i) {
        request.job = std::to_string(i);
        voter.handle(request, Instant{});
    }
    request.job = "another";
    CHECK(voter.handle(request, Instant{}) == Answer{Unknown{{1, leader}}});
    CHECK(!voter.create("another", lineage, "a:1", Instant{}));
}
