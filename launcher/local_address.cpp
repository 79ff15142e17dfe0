// SPDX-License-Identifier: Apache-2.0
#include "launcher/local_address.hpp"

#include "launcher/number.hpp"
#include "rendezvous/base/text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ddprun::launcher {
namespace {

/// An address as bits, IPv4 in its mapped form so that both kinds compare alike.
using Bits = std::array<std::uint8_t, 16>;
constexpr int mapped_prefix_bits = 96;

bool is_v4(std::string_view address) {
    return address.find(':') == std::string_view::npos;
}

std::optional<Bits> parse_address(const std::string& text) {
    Bits bits{};
    const auto mapped = is_v4(text) ? "::ffff:" + text : text;
    if (inet_pton(AF_INET6, mapped.c_str(), bits.data()) != 1) return std::nullopt;
    return bits;
}

bool same_prefix(const Bits& a, const Bits& b, int bits) {
    const auto whole = static_cast<std::size_t>(bits / 8);
    if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), b.begin()))
        return false;
    const int rest = bits % 8;
    if (rest == 0) return true;
    const int difference = a.at(whole) ^ b.at(whole);
    return difference >> (8 - rest) == 0;
}

Failure bad_address(std::string_view text, const std::string& why) {
    return {
        system_code(EINVAL),
        "'" + std::string{text} + "': " + why +
            "; accepted are an address, a host name, an interface and a network like 10.0.0.0/8"};
}

Result<std::string> in_network(
    std::string_view text, std::span<const InterfaceAddress> interfaces) {
    const auto slash = text.find('/');
    const std::string network{text.substr(0, slash)};
    const auto wanted = parse_address(network);
    const auto length = parse_int(text.substr(slash + 1));
    const int longest = is_v4(network) ? 32 : 128;
    if (!wanted || !length || *length < 0 || *length > longest)
        return bad_address(text, "not a network");
    const int bits = is_v4(network) ? mapped_prefix_bits + *length : *length;
    for (const auto& entry : interfaces) {
        const auto address = parse_address(entry.address);
        if (address && same_prefix(*address, *wanted, bits)) return entry.address;
    }
    return bad_address(text, "no interface of this machine has an address in it");
}

}  // namespace

Result<std::string> resolve_local_address(
    std::string_view text, std::span<const InterfaceAddress> interfaces) {
    text = trimmed(text);
    if (text.find('/') != std::string_view::npos) return in_network(text, interfaces);
    const InterfaceAddress* first = nullptr;
    for (const auto& entry : interfaces) {
        if (entry.interface != text) continue;
        if (is_v4(entry.address)) return entry.address;
        if (first == nullptr) first = &entry;
    }
    if (first != nullptr) return first->address;
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    const bool is_plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == ':' || c == '-' || c == '_' || c == '%';
    });
    if (text.empty() || !is_plain) return bad_address(text, "not an address");
    return std::string{text};
}

}  // namespace ddprun::launcher
