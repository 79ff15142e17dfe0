// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/client_session.hpp"

#include "rendezvous/wire/error.hpp"
#include "rendezvous/wire/text.hpp"
#include "tests/support/bytes.hpp"

#include <doctest/doctest.h>

using namespace ddprun;
using namespace ddprun::wire;
using client::ClientSession;
using test::from_hex;
using test::to_hex;

namespace {

using Lines = std::vector<std::string>;

/// A session whose greeting was answered and sent.
ClientSession greeted() {
    ClientSession session(ClientSession::Greeting::validate_and_ping, 7);
    session.sent(session.output().size());
    session.receive(from_hex("07 00 00 00"));
    REQUIRE(session.next().has_value());
    REQUIRE(session.is_greeted());
    return session;
}

Lines replies(ClientSession& session) {
    Lines lines;
    for (;;) {
        const auto reply = session.next();
        if (!reply) lines.push_back(reply.error().code.message());
        if (!reply || !*reply) return lines;
        lines.push_back(describe(**reply));
    }
}

}  // namespace

TEST_CASE("the first bytes of a session are VALIDATE and PING") {
    ClientSession session(ClientSession::Greeting::validate_and_ping, 4242);

    CHECK(to_hex(session.output()) == "00 ce f7 85 3c 0d 92 10 00 00");
    CHECK_FALSE(session.is_greeted());
}

TEST_CASE("for an older server PING can be left out") {
    ClientSession session(ClientSession::Greeting::validate);

    CHECK(to_hex(session.output()) == "00 ce f7 85 3c");
    CHECK(session.is_greeted());
}

TEST_CASE("the pong is not a reply; a wrong one is an error") {
    auto session = greeted();
    CHECK(replies(session) == Lines{});

    ClientSession other(ClientSession::Greeting::validate_and_ping, 7);
    other.receive("SSH-2.0");
    CHECK(other.next().error().code == Error::unexpected_reply);
}

TEST_CASE("requests sent together are answered in their order") {
    auto session = greeted();
    session.send(Set{"/k", "v"});
    session.send(Get{"/k"});
    session.send(Add{"/c", 1});
    CHECK(session.awaited_count() == 2);

    session.receive(from_hex("01 00 00 00 00 00 00 00 76 05 00"));
    CHECK(replies(session) == Lines{"value 1 B"});
    session.receive(from_hex("00 00 00 00 00 00"));
    CHECK(replies(session) == Lines{"number 5"});
    CHECK(session.awaited_count() == 0);
}

TEST_CASE("what was sent is taken from the output, in any portions") {
    auto session = greeted();
    session.send(NumKeys{});
    session.send(CancelWait{});

    session.sent(1);
    CHECK(to_hex(session.output()) == "0c");
    session.sent(1);
    CHECK(session.output().empty());
}

TEST_CASE("a cancelled wait has one answer, or two if it ended meanwhile") {
    auto session = greeted();
    session.send(Wait{{"/k"}});
    session.send(CancelWait{});
    session.receive(from_hex("01"));
    CHECK(replies(session) == Lines{"wait canceled"});
    CHECK(session.awaited_count() == 0);

    session.send(Barrier{"/b", 2});
    session.send(CancelWait{});
    session.receive(from_hex("00"));
    CHECK(replies(session) == Lines{"stop waiting"});
    CHECK(session.awaited_count() == 1);
    session.receive(from_hex("01"));
    CHECK(replies(session) == Lines{"wait canceled"});
    CHECK(session.awaited_count() == 0);
}

TEST_CASE("an unrequested cancellation is an error") {
    auto session = greeted();
    session.send(Wait{{"/k"}});
    session.receive(from_hex("01"));

    CHECK(session.next().error().code == Error::unexpected_reply);
}

TEST_CASE("unrequested bytes are an error") {
    auto session = greeted();
    session.receive("x");

    CHECK(session.next().error().code == Error::unrequested_reply);
}
