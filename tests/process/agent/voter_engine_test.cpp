// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/voter_engine.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/voters/vote_text.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/wait.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::test {
namespace {

using agent::PeerCalls;
using agent::VoterEngine;
using control::Voters;
using witness::Candidacy;

const Nonce lineage{{7}};
constexpr std::int64_t ttl_s = 1;

Nonce nonce_of(char name) {
    return Nonce{{0, 0, 0, static_cast<std::uint8_t>(name)}};
}

std::optional<PeerCalls::Security> security_of(char name, char secret) {
    if (secret == '-') return std::nullopt;
    // The node has another nonce than its process's voter.
    return PeerCalls::Security{{"test", {}, {tls::Secret{std::string(43, secret)}}}, [name] {
                                   return nonce_of(static_cast<char>(name + 1));
                               }};
}

/// A process with a peer port, an `io_context` and a voter of its own.
struct Process {
    /// `secret`: the character of which it consists; '-': none.
    explicit Process(char own_name, char secret = '-')
        : name(own_name),
          random(static_cast<std::uint64_t>(own_name)),
          calls(
              io,
              {[](int, auto) {}, [](int, auto) {}},
              fact_timeout,
              security_of(own_name, secret)) {
        auto acceptor = net::listen(io, "127.0.0.1", 0);
        REQUIRE(acceptor.has_value());
        port = acceptor->local_endpoint().port();
        calls.listen(std::move(*acceptor));
        engine.emplace(
            io,
            calls,
            "job",
            nonce_of(name),
            VoterEngine::Place{"host", {"127.0.0.1", port}},
            random);
    }

    Candidacy candidacy(std::uint64_t epoch) const {
        return {{std::string{name} + ":29400", nonce_of(name).to_string(), epoch}, ttl_s};
    }

    boost::asio::io_context io;
    char name;
    Random random;
    PeerCalls calls;
    std::optional<VoterEngine> engine;
    std::uint16_t port = 0;
};

/// Runs them in turn until the fact holds.
template <class Fact>
bool until(const std::vector<Process*>& processes, Fact fact) {
    return holds_within(fact_timeout, [&] {
        for (auto* process : processes) {
            process->io.restart();
            process->io.poll();
        }
        return fact();
    });
}

/// The answer that `asked` gets while these processes run.
template <class Answer>
Result<Answer> ask(
    const std::vector<Process*>& processes, Process& asked, witness::LeaseRequest request) {
    std::optional<Result<witness::LeaseAnswer>> answer;
    asked.engine->ask(
        std::move(request), [&](Result<witness::LeaseAnswer> given) { answer = std::move(given); });
    CHECK_FALSE(answer.has_value());
    REQUIRE(until(processes, [&] { return answer.has_value(); }));
    if (!*answer) return answer->error();
    return std::get<Answer>(**answer);
}

bool is_elected(const std::vector<Process*>& processes, Process& candidate, std::uint64_t epoch) {
    const auto answer = ask<witness::Campaigned>(
        processes, candidate, witness::Campaign{candidate.candidacy(epoch)});
    return answer && answer->is_won;
}

/// The epoch of the leader that this process reads; 0: there is none, -1: there is no answer.
std::int64_t led_epoch(const std::vector<Process*>& processes, Process& reader) {
    const auto record = ask<witness::Record>(processes, reader, witness::ReadRecord{});
    if (!record) return -1;
    return record->held ? static_cast<std::int64_t>(record->held->leader.epoch) : 0;
}

bool is_stored(
    const std::vector<Process*>& processes,
    Process& leader,
    std::uint64_t epoch,
    const std::string& ended) {
    const auto answer = ask<witness::EndStored>(
        processes, leader, witness::RecordEnd{leader.candidacy(epoch), ended, ttl_s});
    return answer && answer->is_stored;
}

std::optional<control::Voters> change(
    const std::vector<Process*>& processes, Process& leader, std::uint64_t epoch) {
    std::vector<voters::VoterPlace> places;
    places.reserve(processes.size());
    for (const auto* process : processes)
        places.push_back(process->engine->own_voter());
    std::optional<Result<control::Voters>> changed;
    leader.engine->change_voters(
        epoch, places, [&](Result<control::Voters> given) { changed = std::move(given); });
    CHECK_FALSE(changed.has_value());
    REQUIRE(until(processes, [&] { return changed.has_value(); }));
    if (!*changed) return std::nullopt;
    CHECK((*changed)->set.voters == places);
    return **changed;
}

/// The answer of this process's peer port to these bytes, until it closes.
std::string said_to(Process& process, const std::string& bytes) {
    std::optional<std::string> heard;
    std::thread caller([&] {
        auto text = RawClient(process.port).say(bytes).hear_to_the_end();
        boost::asio::post(process.io, [&heard, text] { heard = text; });
    });
    CHECK(until({&process}, [&] { return heard.has_value(); }));
    caller.join();
    return heard.value_or("nothing was heard");
}

std::string request_of(const voters::Request& request) {
    return std::string{voters::vote_protocol} + voters::encode(request);
}

void lead_in_turn(char secret) {
    auto a = std::make_unique<Process>('a', secret);
    Process b('d', secret);
    Process c('g', secret);
    std::vector<Process*> all{a.get(), &b, &c};

    // The first one leads alone, and makes the others voters.
    CHECK(led_epoch(all, b) == -1);
    REQUIRE(a->engine->create(lineage));
    CHECK_FALSE(a->engine->create(lineage));
    REQUIRE(is_elected(all, *a, 1));
    const auto changed = change(all, *a, 1);
    REQUIRE(changed.has_value());
    CHECK(changed->lineage == lineage);
    // They have learned which ones vote by voting.
    REQUIRE(
        until(all, [&] { return b.engine->known() == changed && c.engine->known() == changed; }));
    CHECK_FALSE(b.engine->create(lineage));
    REQUIRE(ask<witness::Kept>(all, *a, witness::KeepLease{a->candidacy(1)})->ttl_s == ttl_s);

    // Lost: its leadership lasts for the ttl, and then another process is elected.
    a.reset();
    all = {&b, &c};
    REQUIRE(until(all, [&] { return led_epoch(all, b) == 0; }));
    REQUIRE(is_elected(all, b, 2));
    CHECK(led_epoch(all, c) == 2);
    CHECK_FALSE(is_elected(all, c, 3));

    REQUIRE(ask<witness::Done>(all, b, witness::Revoke{b.candidacy(2)}).has_value());
    CHECK(led_epoch(all, c) == 0);
    CHECK(ask<witness::Kept>(all, b, witness::KeepLease{b.candidacy(2)})->ttl_s == 0);
    CHECK(is_elected(all, c, 3));
}

}  // namespace

TEST_CASE("three processes elect their leader, lose it, elect the next one, which steps down") {
    lead_in_turn('-');
}

TEST_CASE("three processes with a secret do the same") {
    lead_in_turn('A');
}

TEST_CASE("the next leader gets the end that the last one has recorded before it was lost") {
    auto a = std::make_unique<Process>('a');
    Process b('d');
    Process c('g');
    std::vector<Process*> all{a.get(), &b, &c};
    REQUIRE(a->engine->create(lineage));
    REQUIRE(is_elected(all, *a, 1));
    REQUIRE(change(all, *a, 1).has_value());
    REQUIRE(
        until(all, [&] { return b.engine->known().has_value() && c.engine->known().has_value(); }));

    // The longest that there may be, of bytes that a line of JSON cannot have as they are.
    const std::string ended(limits::max_end_record_bytes, '\n');
    CHECK_FALSE(is_stored(all, b, 1, "of no leader"));
    REQUIRE(is_stored(all, *a, 1, ended));
    CHECK_FALSE(is_stored(all, *a, 1, ended + '\n'));

    a.reset();
    all = {&b, &c};
    REQUIRE(until(all, [&] { return led_epoch(all, c) == 0; }));
    const auto won = ask<witness::Campaigned>(all, c, witness::Campaign{c.candidacy(2)});
    REQUIRE(won.has_value());
    CHECK(won->is_won);
    CHECK(won->ended == ended);
}

TEST_CASE("with a secret a voter and only processes that have it understand each other") {
    Process a('a', 'A');
    Process same('d', 'A');
    Process other('g', 'B');
    Process open('j');
    const voters::Prepare prepare{"job", lineage, nonce_of('a'), {9, nonce_of('x')}};
    const auto answer_to = [&](Process& from, const Nonce& voter) {
        std::optional<std::string> answer;
        from.calls.ask_voter(
            {"127.0.0.1", a.port},
            voter,
            voters::encode(prepare),
            [&](const PeerCalls::VoteReply& reply) {
                CHECK_FALSE(reply.is_refused);
                answer = reply.line;
            });
        REQUIRE(until({&a, &from}, [&] { return answer.has_value(); }));
        return *answer;
    };

    CHECK(answer_to(same, nonce_of('a')).find("promise") != std::string::npos);
    CHECK(answer_to(same, nonce_of('b')) == "");
    CHECK(answer_to(other, nonce_of('a')) == "");
    CHECK(answer_to(open, nonce_of('a')) == "");

    // Its node was lost and has joined again.
    a.engine->answer_as(nonce_of('q'));
    CHECK(answer_to(same, nonce_of('a')).find("promise") != std::string::npos);
    CHECK(answer_to(same, nonce_of('q')).find("promise") != std::string::npos);
    CHECK(answer_to(other, nonce_of('q')) == "");

    a.engine.reset();
    CHECK(answer_to(same, nonce_of('a')) == "");
}

TEST_CASE("a peer port answers requests of votes, refuses without a voter, and closes at garbage") {
    Process a('a');
    REQUIRE(a.engine->create(lineage));
    const voters::Ballot ballot{9, nonce_of('x')};
    const voters::Prepare prepare{"job", lineage, nonce_of('a'), ballot};
    CHECK(said_to(a, request_of(prepare)).find("\"type\":\"promise\"") != std::string::npos);

    auto unknown = prepare;
    SUBCASE("another job") {
        unknown.job = "other";
    }
    SUBCASE("another voter") {
        unknown.voter = nonce_of('b');
    }
    SUBCASE("another lineage") {
        unknown.lineage = Nonce{};
    }
    CHECK(said_to(a, request_of(unknown)) == voters::encode(voters::Unknown{ballot}));

    const std::string protocol{voters::vote_protocol};
    for (const auto& garbage :
         {protocol + "\n",
          protocol + "{}\n",
          request_of(prepare) + "more",
          protocol + std::string(limits::max_vote_line_bytes + 1, 'x') + "\n"}) {
        CAPTURE(garbage.size());
        CHECK(said_to(a, garbage) == "");
    }
    // As long as a line may be.
    CHECK(said_to(a, protocol + std::string(limits::max_vote_line_bytes, 'x') + "\n") == "");
    a.engine.reset();
    CHECK(said_to(a, request_of(prepare)) == voters::no_voter_line);
}

}  // namespace ddprun::test
