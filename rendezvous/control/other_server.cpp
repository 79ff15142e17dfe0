// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/other_server.hpp"

namespace ddprun::control {

std::string_view other_server(std::string_view first_bytes) {
    const auto begins_with = [&](std::string_view text) { return first_bytes.starts_with(text); };
    // A page without headers is an HTTP 0.9 answer, which some servers send after a request line
    // without a version.
    if (begins_with("HTTP/") || begins_with("<!DO") || begins_with("<!do") || begins_with("<htm"))
        return "an HTTP server";
    // An HTTP/2 settings frame: 24 bits of length, type 4, flags 0, stream 0.
    if (first_bytes.size() >= enough_to_name_server && first_bytes[0] == 0 &&
        first_bytes.substr(3, 6) == std::string_view{"\x04\0\0\0\0\0", 6})
        return "an HTTP/2 server (gRPC, etcd)";
    // A TLS alert record of version 3.x.
    if (begins_with("\x15\x03")) return "a TLS server";
    if (begins_with("SSH-")) return "an SSH server";
    if (begins_with("-ERR ") || begins_with("-NOAUTH") || begins_with("-DENIED"))
        return "a Redis server";
    return {};
}

}  // namespace ddprun::control
