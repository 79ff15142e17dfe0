// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/session.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/tls/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun;
using tls::Session;

namespace {

const tls::Key key = tls::control_key(tls::Secret{std::string(43, 'A')});
const tls::Key other_key = tls::control_key(tls::Secret{std::string(43, 'B')});

Session server_with(const tls::Key& known) {
    return Session::for_server([known](std::string_view identity) {
        return identity == known.identity ? std::optional{known} : std::nullopt;
    });
}

/// The bytes in pieces of this size.
Result<> receive(Session& session, std::string_view bytes, std::size_t piece, std::string& plain) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
        if (auto received = session.receive(bytes.substr(0, piece), plain); !received)
            return received;
    return {};
}

/// Both ends, and what each has read.
struct Pair {
    explicit Pair(Session the_client, Session the_server)
        : client(std::move(the_client)),
          server(std::move(the_server)) {}

    /// Everything that is on the way arrives.
    Result<> exchange(std::size_t piece = 1'000'000) {
        while (client.has_output() || server.has_output()) {
            const auto to_server = client.take_output();
            wire += to_server;
            if (auto received = receive(server, to_server, piece, at_server); !received) {
                at_client_error = client.receive(server.take_output(), at_client);
                return received;
            }
            const auto to_client = server.take_output();
            wire += to_client;
            if (auto received = receive(client, to_client, piece, at_client); !received)
                return received;
        }
        return {};
    }

    Session client;
    Session server;
    std::string at_client;
    std::string at_server;
    std::string wire;
    Result<> at_client_error;
};

}  // namespace

TEST_CASE("two ends with one key understand each other, however the bytes are split") {
    for (const std::size_t piece : {1U, 7U, 100U, 100'000U}) {
        CAPTURE(piece);
        Pair pair(Session::for_client(key), server_with(key));
        REQUIRE(pair.exchange(piece).has_value());
        REQUIRE(pair.client.is_established());
        REQUIRE(pair.server.is_established());
        const std::string question(40'000, 'q');
        const std::string answer(70'000, 'a');
        pair.client.send(question);
        pair.server.send(answer);
        REQUIRE(pair.exchange(piece).has_value());
        CHECK(pair.at_server == question);
        CHECK(pair.at_client == answer);
        CHECK(pair.wire.find("qqqq") == std::string::npos);
        CHECK(pair.wire.find("aaaa") == std::string::npos);
    }
}

TEST_CASE("a key that the server does not know, or another one of its name, proves nothing") {
    auto shown = other_key;
    SUBCASE("unknown") {}
    SUBCASE("of the same name") {
        shown.identity = key.identity;
    }
    Pair pair(Session::for_client(shown), server_with(key));
    const auto result = pair.exchange();
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == tls::Error::wrong_secret);
    REQUIRE_FALSE(pair.at_client_error.has_value());
    CHECK(pair.at_client_error.error().code == tls::Error::wrong_secret);
    CHECK_FALSE(pair.server.is_established());
    CHECK_FALSE(pair.client.is_established());
}

TEST_CASE("an end that answers without encryption is recognised by its first byte") {
    const std::vector<std::string> answers{
        std::string(4, '\0'), "HTTP/1.1 400", std::string{tls::no_encryption_here}};
    for (const auto& answer : answers) {
        CAPTURE(answer);
        auto client = Session::for_client(key);
        std::string plain;
        const auto received = receive(client, answer, 1, plain);
        REQUIRE_FALSE(received.has_value());
        CHECK(received.error().code == tls::Error::not_encrypted);
        CHECK(plain.empty());
    }
}

TEST_CASE("a recorded conversation opens no second session") {
    Pair first(Session::for_client(key), server_with(key));
    std::vector<std::string> recorded;
    std::string ignored;
    while (first.client.has_output()) {
        recorded.push_back(first.client.take_output());
        REQUIRE(first.server.receive(recorded.back(), ignored).has_value());
        REQUIRE(first.client.receive(first.server.take_output(), ignored).has_value());
        if (first.client.is_established() && recorded.size() == 1) first.client.send("leave");
    }
    REQUIRE(first.server.is_established());
    REQUIRE(ignored == "leave");

    auto second = server_with(key);
    std::string plain;
    for (const auto& bytes : recorded)
        if (!second.receive(bytes, plain)) break;
    CHECK_FALSE(second.is_established());
    CHECK(plain.empty());
}

TEST_CASE("a changed byte ends an established session") {
    Pair pair(Session::for_client(key), server_with(key));
    REQUIRE(pair.exchange().has_value());
    pair.client.send("join");
    auto bytes = pair.client.take_output();
    bytes.back() ^= 1;
    const auto received = pair.server.receive(bytes, pair.at_server);
    REQUIRE_FALSE(received.has_value());
    CHECK(received.error().code == tls::Error::not_authentic);
    CHECK(pair.at_server.empty());
}

TEST_CASE("a hello reflected to its sender, and a handshake without end, are no handshake") {
    auto client = Session::for_client(key);
    std::string plain;
    CHECK_FALSE(client.receive(client.take_output(), plain).has_value());

    auto server = server_with(key);
    // A record that announces more than the limit and never ends.
    Result<> received;
    for (std::size_t sent = 0; received && sent <= 2 * limits::max_tls_handshake_bytes; ++sent)
        received = server.receive(sent == 0 ? "\x16" : sent < 3 ? "\x03" : "\x3f", plain);
    CHECK_FALSE(received.has_value());
    CHECK(plain.empty());
}
