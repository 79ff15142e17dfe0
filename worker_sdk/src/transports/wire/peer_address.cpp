// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/peer_address.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/hex.hpp"
#include "worker_sdk/src/environment_names.hpp"

#include <array>
#include <charconv>
#include <sstream>
#include <string_view>

namespace ddprun::groups {

namespace {

template <class Number>
bool read(std::string_view text, Number& number) {
    const auto* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    return result.ec == std::errc{} && result.ptr == end;
}

}  // namespace

bool is_same(const Token& one, const Token& other) {
    unsigned difference = 0;
    for (std::size_t i = 0; i < one.size(); ++i)
        difference |= static_cast<unsigned>(one[i] ^ other[i]);
    return difference == 0;
}

std::optional<std::string> why_unreachable(const PeerAddress& address, const std::string& network) {
    std::string why;
    if (address.host.find('%') != std::string::npos)
        why = "an address of one link only";
    else if (is_loopback(address.host) && address.network != network)
        why = "which only its own machine reaches";
    else
        return {};
    return address.host + ", " + why + ": set " + environment::node_addr +
           " there to an address that its peers reach";
}

std::string written(const PeerAddress& address) {
    return std::to_string(wire_version) + " " + address.host + " " + std::to_string(address.port) +
           " " + in_hex(address.token) + " " + address.network;
}

std::optional<PeerAddress> peer_address_from(const std::string& text) {
    std::istringstream words(text);
    PeerAddress address;
    std::string version;
    std::string port;
    std::string token;
    std::string more;
    const bool has_all =
        static_cast<bool>(words >> version >> address.host >> port >> token >> address.network);
    if (!has_all || words >> more || version != std::to_string(wire_version)) return {};
    const auto bytes = from_hex<std::tuple_size_v<Token>>(token);
    if (!read(port, address.port) || !bytes) return {};
    address.token = *bytes;
    return address;
}

}  // namespace ddprun::groups
