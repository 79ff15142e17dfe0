// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/session.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/tls/error.hpp"

#include <doctest/doctest.h>

#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
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

/// A client made with OpenSSL alone, which sends a closing message.
class ClosingClient {
public:
    ClosingClient()
        : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
          ssl_(nullptr, SSL_free) {
        SSL_CTX_set_psk_use_session_callback(context_.get(), use_key);
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        SSL_set_connect_state(ssl_.get());
    }

    std::string shake_hands(const std::string& answer) {
        if (!answer.empty())
            BIO_write(SSL_get_rbio(ssl_.get()), answer.data(), static_cast<int>(answer.size()));
        SSL_do_handshake(ssl_.get());
        return output();
    }

    std::string text_and_end(const std::string& text) {
        SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size()));
        SSL_shutdown(ssl_.get());
        return output();
    }

private:
    static int use_key(
        SSL* ssl, const EVP_MD*, const unsigned char** id, std::size_t* size, SSL_SESSION** used) {
        const unsigned char suite[]{0x13, 0x01};
        *used = SSL_SESSION_new();
        SSL_SESSION_set1_master_key(*used, key.bytes.data(), key.bytes.size());
        SSL_SESSION_set_cipher(*used, SSL_CIPHER_find(ssl, suite));
        SSL_SESSION_set_protocol_version(*used, TLS1_3_VERSION);
        *id = reinterpret_cast<const unsigned char*>(key.identity.data());
        *size = key.identity.size();
        return 1;
    }

    std::string output() {
        auto* from = SSL_get_wbio(ssl_.get());
        std::string bytes(BIO_ctrl_pending(from), '\0');
        if (!bytes.empty()) BIO_read(from, bytes.data(), static_cast<int>(bytes.size()));
        return bytes;
    }

    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
    std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
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

TEST_CASE("the key of one purpose, or towards one agent, proves nothing for another") {
    const tls::Secret secret{std::string(43, 'A')};
    auto shown = tls::peer_key(secret, Nonce{{1}});
    auto known = key;
    SUBCASE("a probe's at the server") {}
    SUBCASE("a probe's at another agent") {
        known = tls::peer_key(secret, Nonce{{2}});
    }
    // A recording for one purpose may be replayed under the name of another.
    shown.identity = known.identity;
    Pair pair(Session::for_client(shown), server_with(known));
    const auto result = pair.exchange();
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code == tls::Error::wrong_secret);
    CHECK_FALSE(pair.server.is_established());
}

TEST_CASE("OpenSSL without what sessions need is found before the first of them") {
    CHECK(tls::check_openssl().has_value());
    // Its default provider has no algorithm that FIPS allows.
    const auto refused = tls::check_openssl("fips=yes");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == system_code(EINVAL));
    CHECK(refused.error().context.starts_with("OpenSSL on this machine has no TLS 1.3"));
    CHECK(tls::check_openssl().has_value());
}

TEST_CASE("a closing message ends the session, whatever comes after it") {
    auto server = server_with(key);
    ClosingClient client;
    std::string plain;
    while (!server.is_established())
        REQUIRE(server.receive(client.shake_hands(server.take_output()), plain).has_value());
    const auto received = server.receive(client.text_and_end("last"), plain);
    REQUIRE_FALSE(received.has_value());
    CHECK(received.error().code == tls::Error::closed);
    CHECK(plain == "last");
    CHECK_FALSE(server.receive(std::string(1'000, 'x'), plain).has_value());
    CHECK(server.held_bytes() == 0);
}

TEST_CASE("what a session keeps of an incomplete record, and for the other end, is known") {
    Pair pair(Session::for_client(key), server_with(key));
    REQUIRE(pair.exchange().has_value());
    CHECK(pair.server.held_bytes() == 0);
    pair.client.send(std::string(10'000, 'x'));
    CHECK(pair.client.held_bytes() > 10'000);
    const auto record = pair.client.take_output();
    CHECK(pair.client.held_bytes() == 0);
    const auto split = record.size() - 1;
    REQUIRE(pair.server.receive(record.substr(0, split), pair.at_server).has_value());
    CHECK(pair.server.held_bytes() >= split);
    REQUIRE(pair.server.receive(record.substr(split), pair.at_server).has_value());
    CHECK(pair.server.held_bytes() == 0);
}

TEST_CASE("a handshake without end is none") {
    std::string plain;
    auto server = server_with(key);
    // A record that announces more than the limit and never ends.
    Result<> received;
    for (std::size_t sent = 0; received && sent <= 2 * limits::max_tls_handshake_bytes; ++sent)
        received = server.receive(sent == 0 ? "\x16" : sent < 3 ? "\x03" : "\x3f", plain);
    CHECK_FALSE(received.has_value());
    CHECK(plain.empty());
}
