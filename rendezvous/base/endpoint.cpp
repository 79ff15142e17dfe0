// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/endpoint.hpp"

#include "rendezvous/base/text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace ddprun {
namespace {

Failure bad_endpoint(std::string_view text, std::string_view why) {
    return {
        system_code(EINVAL),
        "endpoint '" + std::string{text} + "': " + std::string{why} +
            "; accepted are host, host:port and [ipv6]:port"};
}

bool is_host_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':' ||
           c == '-' || c == '%';
}

bool is_ipv6(std::string_view text) {
    in6_addr ignored{};
    return ::inet_pton(AF_INET6, std::string{text.substr(0, text.find('%'))}.c_str(), &ignored) ==
           1;
}

}  // namespace

std::string Endpoint::to_string() const {
    const bool is_v6 = host.find(':') != std::string::npos;
    return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port) {
    auto rest = trimmed(text);
    if (rest.empty()) return Endpoint{"localhost", default_port};

    std::string_view host;
    std::string_view port;
    bool has_port = false;
    if (rest.front() == '[') {
        const auto close = rest.find(']');
        if (close == std::string_view::npos) return bad_endpoint(text, "'[' without ']'");
        host = rest.substr(1, close - 1);
        rest.remove_prefix(close + 1);
        has_port = !rest.empty();
        if (has_port && rest.front() != ':') return bad_endpoint(text, "text after ']'");
        if (has_port) port = rest.substr(1);
    } else if (rest.find(':') == std::string_view::npos || is_ipv6(rest)) {
        host = rest;
    } else {
        const auto colon = rest.rfind(':');
        host = rest.substr(0, colon);
        port = rest.substr(colon + 1);
        has_port = true;
        // Without brackets the last colon may belong to an IPv6 address. It separates a port only
        // if the part before it is a whole address.
        if (host.find(':') != std::string_view::npos && !is_ipv6(host))
            return bad_endpoint(text, "not an IPv6 address, with or without a port");
    }

    if (host.empty() || !std::all_of(host.begin(), host.end(), is_host_character))
        return bad_endpoint(
            text, "the host must be a name of dot-separated labels or an IPv4 or IPv6 address");
    Endpoint endpoint{std::string{host}, default_port};
    if (has_port) {
        const auto* end = port.data() + port.size();
        const auto [stop, error] = std::from_chars(port.data(), end, endpoint.port);
        if (port.empty() || error != std::errc{} || stop != end)
            return bad_endpoint(text, "the port must be a number between 0 and 65535");
    }
    return endpoint;
}

std::string unwrap_mapped(std::string address) {
    constexpr std::string_view prefix = "::ffff:";
    if (address.starts_with(prefix) && address.find('.') != std::string::npos)
        address.erase(0, prefix.size());
    return address;
}

bool is_loopback(std::string_view address) {
    const auto plain = unwrap_mapped(std::string{address});
    return plain == "::1" || plain.starts_with("127.");
}

}  // namespace ddprun
