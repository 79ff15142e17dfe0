// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/tls/keys.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::tls {

/// Whether OpenSSL supports what sessions and keys need, with these properties ("fips=yes";
/// nullptr: any). Sessions and keys require that this function has succeeded. On error the code is
/// EINVAL and the context a sentence.
Result<> check_openssl(const char* properties = nullptr);

/// One end of an encrypted connection. It has no socket: the caller passes the bytes between it and
/// the connection. TLS 1.3 with a pre-shared key and X25519 (psk_dhe_ke): both ends prove that they
/// have the key, a recorded connection stays secret even if the key leaks later, and a replay
/// proves nothing. No certificates, tickets, early data.
///
///   session.receive(bytes, plain)   what came from the other end
///   session.take_output()           what must be written to it, after each call
///   session.send(text)              once it `is_established`
///
/// The end of the connection is the end of the text. No closing message is sent, since a frame is
/// either complete or ignored. A received closing message ends the session (`Error::closed`). Used
/// by one thread at a time.
class Session {
public:
    /// The key of this identity, if there is one.
    using FindKey = std::function<std::optional<Key>(std::string_view identity)>;

    /// The session's first output is available at once.
    static Session for_client(const Key& key);
    static Session for_server(FindKey find_key);
    ~Session();
    Session(Session&&) noexcept;
    Session& operator=(Session&&) = delete;

    /// Appends the decrypted bytes to `plain`. After a failure the session is over, but there may
    /// be output that reports it to the other end. Only the bytes of an established session reach
    /// `plain`.
    Result<> receive(std::string_view bytes, std::string& plain);
    /// Requires: `is_established`, and no failure before.
    void send(std::string_view text);
    std::string take_output();
    bool has_output() const;
    /// The memory of pending bytes, in both directions.
    std::size_t held_bytes() const;
    /// The other end has proved that it has the key.
    bool is_established() const;

private:
    struct State;
    explicit Session(std::unique_ptr<State> state);

    std::unique_ptr<State> state_;
};

/// A server without a secret sends this to a client that has one: a TLS alert (RFC 8446, 6.2,
/// insufficient_security), which `Session` reads as `Error::not_encrypted`.
inline constexpr std::string_view no_encryption_here{"\x15\x03\x03\x00\x02\x02\x47", 7};

}  // namespace ddprun::tls
