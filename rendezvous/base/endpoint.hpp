// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// The place of a server: a host name or numeric address (IPv6 without brackets), and a port.
struct Endpoint {
    std::string host;
    std::uint16_t port = 0;

    /// "node1:29400", "[fe80::1]:29400".
    std::string to_string() const;
    bool operator==(const Endpoint&) const = default;
};

/// Reads `host`, `host:port`, `[v6]`, `[v6]:port`; blanks around it are dropped, an empty text is
/// localhost, a missing port is `default_port`. A bare IPv6 address (two colons or more) has no
/// port: torch splits it at the last colon, which is never the intended meaning. On error the
/// context names the given text and the accepted forms.
Result<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port);

/// "::ffff:10.0.0.1" -> "10.0.0.1"; everything else unchanged.
std::string unwrap_mapped(std::string address);

/// Whether this is a numeric loopback address (127.0.0.0/8 or ::1), or its IPv4-mapped form.
bool is_loopback(std::string_view address);

}  // namespace ddprun
