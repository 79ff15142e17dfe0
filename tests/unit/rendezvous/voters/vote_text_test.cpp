// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/voters/vote_text.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::voters;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

namespace {

const Nonce a = *Nonce::parse("000000000000000000000000000000aa");
const Nonce b = *Nonce::parse("000000000000000000000000000000bb");
const Ballot ballot{7, a};
const JobRecord led{
    b,
    Leader{"node1", "node1:20001", a},
    3,
    10s,
    6,
    {2, {{"node1:20001", a}, {"node2:20001", b}}, {{"node1:20001", a}}}};
/// A job of that id has ended before.
const JobRecord free_again{b, std::nullopt, 3, 10s, 6, led.voters, {"\0\n\xff\"", 4}};

const std::vector<Request> requests{
    Prepare{"job", b, a, ballot},
    Accept{"job", a, ballot, led},
    Accept{"job", a, ballot, free_again},
};
const std::vector<Answer> answers{
    Promise{ballot, std::nullopt},
    Promise{ballot, Vote{{6, b}, led, 1500ms}},
    Promise{ballot, Vote{{6, b}, free_again, 0s}},
    Accepted{ballot},
    Refused{ballot, {8, b}},
    Unknown{ballot},
};

template <class Message>
std::string verdict(const std::string& line) {
    LineDecoder<Message> decoder;
    decoder.append(line + "\n");
    const auto message = decoder.next();
    if (message) return *message ? "a message" : "nothing yet";
    return message.error().code.message() + " | " + message.error().context;
}

/// The sample with another text at one place.
std::string changed(const Request& sample, const std::string& from, const std::string& to) {
    auto line = encode(sample);
    line.pop_back();
    const auto at = line.find(from);
    REQUIRE(at != std::string::npos);
    return line.replace(at, from.size(), to);
}

template <class Message>
void check_round_trip(const std::vector<Message>& messages) {
    std::string bytes;
    for (const auto& message : messages)
        bytes += encode(message);
    // Whole, and in single bytes.
    for (const std::size_t step : {bytes.size(), std::size_t{1}}) {
        LineDecoder<Message> decoder;
        std::vector<Message> read;
        for (std::size_t at = 0; at < bytes.size(); at += step) {
            decoder.append(bytes.substr(at, step));
            for (auto next = decoder.next(); *next; next = decoder.next())
                read.push_back(std::move(**next));
        }
        CHECK(read == messages);
    }
}

}  // namespace

TEST_CASE("each message of a vote is read as it was written, in any pieces") {
    check_round_trip(requests);
    check_round_trip(answers);
}

TEST_CASE("a vote looks on the wire as its page shows it") {
    CHECK(
        encode(requests[0]) ==
        R"({"type":"prepare","job":"job","lineage":"000000000000000000000000000000bb","voter":"000000000000000000000000000000aa","ballot":{"counter":7,"proposer":"000000000000000000000000000000aa"}})"
        "\n");
    CHECK(
        encode(answers[1]) ==
        R"({"type":"promise","ballot":{"counter":7,"proposer":"000000000000000000000000000000aa"},"vote":{"ballot":{"counter":6,"proposer":"000000000000000000000000000000bb"},"record":{"lineage":"000000000000000000000000000000bb","leader":{"name":"node1","addr":"node1:20001","nonce":"000000000000000000000000000000aa"},"epoch":3,"ttl":10,"counter":6,"set":{"version":2,"voters":[{"addr":"node1:20001","nonce":"000000000000000000000000000000aa"},{"addr":"node2:20001","nonce":"000000000000000000000000000000bb"}],"former":[{"addr":"node1:20001","nonce":"000000000000000000000000000000aa"}]}},"age":1.5}})"
        "\n");
}

TEST_CASE("the longest record fits into a line") {
    const std::string name(limits::max_name_bytes, 'n');
    const auto most = limits::max_voted_number;
    JobRecord record{a, Leader{name, name, a}, most, 10s, most, {}};
    record.ends.assign(limits::max_end_record_bytes, '\xff');
    for (std::uint8_t i = 0; i < limits::max_voters; ++i)
        record.voters.voters.push_back({name, Nonce{{i}}});
    record.voters.former = record.voters.voters;
    const Request request{Accept{name, a, {most, a}, record}};
    const Answer answer{Promise{{most, a}, Vote{{most, a}, record, limits::longest_lease}}};
    for (const auto& line : {encode(request), encode(answer)})
        CHECK(line.size() < limits::max_vote_line_bytes);
    CHECK(verdict<Request>(encode(request)) == "a message");
    record.ends += 'x';
    CHECK(verdict<Request>(encode(Request{Accept{name, a, ballot, record}}))
              .ends_with("accept.record.ends: at most 18432 bytes in base64"));
}

TEST_CASE("a line that is no message of a vote is refused with the reason") {
    const auto& prepare = requests[0];
    const auto& accept = requests[1];
    CHECK(verdict<Request>("") == "not a JSON object | line of a vote");
    CHECK(verdict<Request>("[]") == "not a JSON object | line of a vote");
    CHECK(verdict<Request>("{}") == "unknown message type | line of a vote without a type");
    CHECK(verdict<Request>(R"({"type":"promise"})") == "unknown message type | promise");
    CHECK(verdict<Answer>(R"({"type":"prepare"})") == "unknown message type | prepare");
    CHECK(verdict<Request>(std::string(30, '[')) == "JSON nested too deeply | line of a vote");
    const std::vector<std::pair<std::string, std::string>> broken{
        {changed(prepare, R"("job":"job")", R"("job":"job","job":"other")"), "a field comes twice"},
        {changed(prepare, R"("job":"job")", R"("job":"")"), "prepare.job: text of 1 to 255 bytes"},
        {changed(prepare, R"("counter":7)", R"("counter":-1)"),
         "prepare.ballot.counter: an integer from 0 to 9007199254740992"},
        {changed(prepare, R"("counter":7)", R"("counter":9007199254740993)"),
         "prepare.ballot.counter: an integer from 0 to 9007199254740992"},
        {changed(prepare, R"("counter":7,)", ""),
         "prepare.ballot.counter: an integer from 0 to 9007199254740992"},
        {changed(prepare, "0aa\"", "0AA\""), "prepare.voter: 32 lower-case hexadecimal digits"},
        {changed(accept, R"("ttl":10)", R"("ttl":-1)"),
         "accept.record.ttl: seconds, from 0 to ten years"},
        {changed(accept, R"("ttl":10)", R"("ttl":86401)"), "record: a ttl of at most a day"},
        {changed(accept, R"("voters":[)", R"("voters":[],"other":[)"), "record: 1 to 5 voters"},
        {changed(
             accept,
             R"("node2:20001","nonce":"000000000000000000000000000000bb")",
             R"("node2:20001","nonce":"000000000000000000000000000000aa")"),
         "record: a voter comes twice"},
        {changed(accept, R"("node2:20001")", R"("node2\n20001")"),
         "record: the address of a voter"},
        {changed(accept, R"("name":"node1")", R"("name":"\u0007")"),
         "record: the leader's name and address"},
        {changed(requests[2], R"("ends":"AAr/Ig==")", R"("ends":"A\nr/Ig==")"),
         "accept.record.ends: at most 18432 bytes in base64"},
        {changed(requests[2], R"("ends":"AAr/Ig==")", R"("ends":4)"),
         "accept.record.ends: at most 18432 bytes in base64"},
    };
    for (const auto& one : broken) {
        const auto& line = one.first;
        CAPTURE(line);
        CHECK(verdict<Request>(line).ends_with(" | " + one.second));
    }
}

TEST_CASE("a line that is too long is refused before its end has come") {
    RequestDecoder decoder;
    decoder.append(std::string(limits::max_vote_line_bytes, ' '));
    CHECK(decoder.next().has_value());
    decoder.append(" ");
    CHECK(!decoder.next().has_value());
    CHECK(!decoder.next().has_value());
}
