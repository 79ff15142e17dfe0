// SPDX-License-Identifier: Apache-2.0
// Any bytes where an encrypted connection is expected, in pieces of several sizes: no session of
// either end is established, nothing reaches the protocol inside, and an end that has failed stays
// so. Mixed into a real conversation they end it. The same bytes are then read as a secret's file:
// an accepted text is a secret, and the message about a refused one does not contain it.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/tls/session.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace {

using namespace ddprun;
using tls::Session;

const tls::Key key = tls::control_key(tls::Secret{std::string(43, 'A')});

Session a_server() {
    return Session::for_server([](std::string_view identity) {
        return identity == key.identity ? std::optional{key} : std::nullopt;
    });
}

bool receive(Session& session, std::string_view bytes, std::size_t piece, std::string& plain) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
        if (!session.receive(bytes.substr(0, piece), plain)) return false;
    return true;
}

void check_alone(Session session, std::string_view bytes, std::size_t piece) {
    std::string plain;
    const bool goes_on = receive(session, bytes, piece, plain);
    require(!session.is_established() && plain.empty(), "no key, no session");
    require(
        !goes_on || bytes.size() <= limits::max_tls_handshake_bytes, "a handshake without an end");
    if (!goes_on) require(!session.receive("x", plain).has_value(), "a failure is not the end");
}

void check_inside(std::string_view bytes) {
    auto client = Session::for_client(key);
    auto server = a_server();
    std::string plain;
    require(server.receive(client.take_output(), plain).has_value(), "a hello");
    require(client.receive(server.take_output(), plain).has_value(), "an answer");
    client.send("join");
    require(server.receive(client.take_output(), plain).has_value(), "the first text");
    require(server.is_established() && plain == "join", "what was sent");
    std::ignore = server.receive(bytes, plain);
    require(plain == "join", "bytes without the key were taken for text");
}

void check_file(std::string_view text) {
    const auto secrets = tls::parse_secrets(text);
    if (!secrets)
        return require(secrets.error().context.size() < 200, "the text is in the message");
    require(
        !secrets->empty() && secrets->size() <= limits::max_secrets, "another count than accepted");
    for (const auto& secret : *secrets)
        require(text.find(secret.characters()) != std::string_view::npos, "not what was given");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes{reinterpret_cast<const char*>(data), size};
    for (const std::size_t piece : {1U, 5U, 4'096U}) {
        check_alone(a_server(), bytes, piece);
        check_alone(Session::for_client(key), bytes, piece);
    }
    check_inside(bytes);
    check_file(bytes);
    return 0;
}
