// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/wire/query.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// Detects the protocol of a caller from the first bytes of a connection. Pure: the server reads,
/// calls `sniff`, and reads more while the answer is `need_more`, until its handshake deadline.
namespace ddprun::server {

enum class Caller : std::uint8_t {
    need_more,        ///< the bytes so far fit more than one
    c10d,             ///< a store client that is accepted: PyTorch 2.2 or newer, or ddprun's
    control,          ///< an agent, or one that asks for a vote
    http,             ///< a browser or a metrics collector
    older_c10d,       ///< PyTorch 2.1 or older: opcodes one lower and no handshake
    big_endian_c10d,  ///< the c10d magic in the other byte order
    tls,              ///< a TLS client hello: an agent with a secret
    unknown,
};

/// Decides within nine bytes. If clients of PyTorch 2.1 are accepted, they count as `c10d` too.
Caller sniff(std::string_view first_bytes, wire::Accepted accepted = wire::Accepted::current);

/// For the log line about a caller that is turned away: "a PyTorch client older than 2.2".
std::string_view describe(Caller caller);

/// `DDPRUN/<version>\n`, the first line of a control connection.
struct Preamble {
    int version = 0;
    /// Its length, newline included; frames follow.
    std::size_t length = 0;
    bool operator==(const Preamble&) const = default;
};

/// The preamble, nothing yet, or an error when these bytes can never become one.
Result<std::optional<Preamble>> read_preamble(std::string_view first_bytes);

}  // namespace ddprun::server
