// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/witness.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace ddprun;
using namespace ddprun::voters;
using namespace std::chrono_literals;

namespace {

Nonce numbered(std::uint8_t last) {
    return Nonce{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

const Nonce witness_nonce = numbered(1);
const Nonce node = numbered(2);

Prepare prepare_of(const std::string& job, const Nonce& of_record, std::uint64_t counter) {
    return {job, of_record, witness_nonce, {counter, node}};
}

JobRecord record_in(const Nonce& of_record, bool is_over) {
    JobRecord record;
    record.lineage = of_record;
    record.ttl = 4s;
    record.voters.voters = {{"a:1", node}, {"witness/w:1", witness_nonce}};
    if (is_over)
        record.ends = "an end";
    else
        record.leader = Leader{"a", "a:1", node};
    return record;
}

struct Asking {
    Witness witness{witness_nonce};
    Instant now{};
    std::string tenant = {};
    /// Of the last request.
    std::string new_job = {};

    Answer ask(const Request& request) {
        auto reply = witness.answer(tenant, encode(request), now);
        new_job = reply.new_job;
        const auto answer = message_of<Answer>(reply.line);
        REQUIRE(answer.has_value());
        return *answer;
    }
    bool promises(const std::string& job, const Nonce& of_record, std::uint64_t counter = 1) {
        return std::holds_alternative<Promise>(ask(prepare_of(job, of_record, counter)));
    }
};

}  // namespace

TEST_CASE("a witness says under which nonce it votes") {
    Witness witness{witness_nonce};
    const Identify asked{"job", numbered(9)};
    const auto line = encode(asked);
    CHECK(
        line == R"({"type":"identify","job":"job","lineage":"00000000000000000000000000000009"})"
                "\n");
    CHECK(identify_in(line) == asked);
    CHECK_FALSE(identify_in(encode(Request{prepare_of("job", numbered(9), 1)})).has_value());
    const auto answer = witness.answer({}, line, Instant{}).line;
    CHECK(
        answer == R"({"type":"voter","nonce":"00000000000000000000000000000001"})"
                  "\n");
    CHECK(identity_in(answer) == witness_nonce);
    CHECK_FALSE(identity_in(no_voter_line).has_value());
    CHECK_FALSE(identity_in(R"({"type":"voter","nonce":"1"})").has_value());
    CHECK(witness.record_count() == 0);
}

TEST_CASE("a witness votes about each record by itself, and about each tenant's") {
    Asking asking;
    CHECK(asking.promises("job", numbered(9), 5));
    CHECK(asking.new_job == "job");
    CHECK_FALSE(asking.promises("job", numbered(9), 4));
    CHECK(asking.new_job.empty());
    // The job of that id was begun again elsewhere, or is another one.
    CHECK(asking.promises("job", numbered(8), 4));
    CHECK(asking.new_job == "job");
    CHECK(asking.promises("other", numbered(9), 4));
    asking.tenant = "one";
    CHECK(asking.promises("job", numbered(9), 4));
    CHECK(asking.witness.record_count() == 4);
}

TEST_CASE("a witness keeps nothing for a request that is not valid, or meant for another process") {
    Asking asking;
    CHECK(asking.witness.answer({}, "", asking.now).line.empty());
    CHECK(asking.witness.answer({}, "{}", asking.now).line.empty());
    auto request = prepare_of("job", numbered(9), 1);
    request.voter = numbered(7);
    CHECK(std::holds_alternative<Unknown>(asking.ask(request)));
    CHECK(asking.witness.record_count() == 0);
}

TEST_CASE("a witness with very many records takes no further one until it can forget some") {
    Asking asking;
    const auto fill = [&](const auto& accept) {
        for (std::size_t i = 0; i < limits::max_voted_jobs; ++i) {
            const auto job = "job" + std::to_string(i);
            REQUIRE(asking.promises(job, numbered(9)));
            accept(job);
        }
    };
    Duration kept{};
    SUBCASE("that have no value") {
        fill([](const std::string&) {});
        kept = 10min;
    }
    SUBCASE("that are over") {
        fill([&](const std::string& job) {
            asking.ask(Accept{job, witness_nonce, {1, node}, record_in(numbered(9), true)});
        });
        kept = 1h;
    }
    SUBCASE("that have a leader") {
        fill([&](const std::string& job) {
            asking.ask(Accept{job, witness_nonce, {1, node}, record_in(numbered(9), false)});
        });
        kept = 24h;
    }
    const auto identified = [&](const std::string& job) {
        const auto line = encode(Identify{job, numbered(9)});
        return identity_in(asking.witness.answer({}, line, asking.now).line).has_value();
    };
    asking.now += kept - 1s;
    CHECK(std::holds_alternative<Unknown>(asking.ask(prepare_of("more", numbered(9), 1))));
    CHECK_FALSE(identified("more"));
    CHECK(identified("job0"));
    CHECK(asking.promises("job0", numbered(9), 2));
    CHECK(asking.witness.record_count() == limits::max_voted_jobs);

    asking.now += 1s;
    CHECK(identified("more"));
    CHECK(asking.promises("more", numbered(9)));
    // Those about which it was asked in that time, and the new one.
    CHECK(asking.witness.record_count() == 2);
}

TEST_CASE("a witness forgets no record whose leader goes on to identify it, without its vote") {
    Asking asking;
    CHECK(asking.promises("job0", numbered(9)));
    asking.ask(Accept{"job0", witness_nonce, {1, node}, record_in(numbered(9), false)});
    for (int hours = 0; hours < 48; ++hours) {
        asking.now += 1h;
        const auto line = encode(Identify{"job0", numbered(9)});
        CHECK(identity_in(asking.witness.answer({}, line, asking.now).line).has_value());
    }
    for (std::size_t i = 1; i < limits::max_voted_jobs; ++i)
        REQUIRE(asking.promises("job" + std::to_string(i), numbered(9)));
    CHECK_FALSE(asking.promises("more", numbered(9)));
    const auto answer = asking.ask(prepare_of("job0", numbered(9), 7));
    CHECK(std::get<Promise>(answer).vote.has_value());
}

TEST_CASE("one tenant cannot take up all of a witness") {
    Asking asking;
    asking.tenant = "one";
    std::size_t count = 0;
    while (asking.promises("job" + std::to_string(count), numbered(9)))
        ++count;
    CHECK(count == limits::max_voted_jobs / 5);
    asking.tenant = "two";
    CHECK(asking.promises("job", numbered(9)));
}
