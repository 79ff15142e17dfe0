// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/network.hpp"

#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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

/// "eth0 (10.1.2.3, fd00::5), lo (127.0.0.1)", in the system's order.
std::string listed(std::span<const InterfaceAddress> interfaces) {
    constexpr std::size_t most = 16;
    // The system lists all IPv4 addresses first.
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto& entry : interfaces) {
        const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& known) {
            return known.first == entry.interface;
        });
        if (row == rows.end())
            rows.emplace_back(entry.interface, entry.address);
        else
            row->second += ", " + entry.address;
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(rows.size(), most); ++i)
        text += (i == 0 ? "" : ", ") + rows[i].first + " (" + rows[i].second + ")";
    if (rows.size() > most) text += ", ...";
    return text.empty() ? "none" : text;
}

Failure bad_address(
    std::string_view text, const std::string& why, std::span<const InterfaceAddress> interfaces) {
    return {
        system_code(EINVAL),
        "'" + std::string{text} + "': " + why +
            "; accepted are an address, a host name, an interface and a network like 10.0.0.0/8; "
            "the interfaces here are " +
            listed(interfaces)};
}

/// True for texts that cannot be a name: "10.0.0.256", "fd00::x", "node:29500".
bool is_meant_as_address(std::string_view text) {
    return text.find(':') != std::string_view::npos ||
           text.find_first_not_of("0123456789.") == std::string_view::npos;
}

Result<std::string> in_network(
    std::string_view text, std::span<const InterfaceAddress> interfaces) {
    const auto slash = text.find('/');
    const std::string network{text.substr(0, slash)};
    const auto wanted = parse_address(network);
    const auto length = parse_int(text.substr(slash + 1));
    const int longest = is_v4(network) ? 32 : 128;
    if (!wanted || !length || *length < 0 || *length > longest)
        return bad_address(text, "not a network", interfaces);
    const int bits = is_v4(network) ? mapped_prefix_bits + *length : *length;
    for (const auto& entry : interfaces) {
        const auto address = parse_address(entry.address);
        if (address && same_prefix(*address, *wanted, bits)) return entry.address;
    }
    return bad_address(text, "no interface of this machine has an address in it", interfaces);
}

}  // namespace

Result<std::string> resolve_local_address(
    std::string_view text,
    std::span<const InterfaceAddress> interfaces,
    const HasAddress& has_address) {
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
    const std::string name{text};
    if (parse_address(name.substr(0, name.find('%')))) return name;
    const bool is_plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
    });
    if (text.empty() || !is_plain || is_meant_as_address(text))
        return bad_address(text, "not an address", interfaces);
    // A full name is accepted unresolved, since other nodes may resolve it earlier than this one. A
    // short name may be a misspelt interface, for which every node would wait in vain.
    if (text.find('.') == std::string_view::npos && !has_address(name))
        return bad_address(text, "neither an interface nor a host name known here", interfaces);
    return name;
}

namespace {

/// Three ports are in use at once: those of the round's store, of the next store, and of probes.
constexpr int fewest_ports = 4;

/// Debian's installer maps a host's own name to 127.0.1.1, and Gloo listens at the address of that
/// name.
std::string own_name_problem(const Resolving& job) {
    const auto& nodes = job.spec.nodes.value;
    const auto& system = job.system;
    const auto& endpoint = job.spec.endpoint.value.host;
    const bool is_alone =
        nodes.max + nodes.spares == 1 || endpoint == "localhost" || is_loopback(endpoint);
    if (is_alone || value_of(system.environment, "GLOO_SOCKET_IFNAME") || !system.own_name_address)
        return {};
    const auto address = system.own_name_address();
    if (!address) return {};
    if (address->empty()) return system.host_name + " is the name of no address of this machine";
    return is_loopback(*address) ? system.host_name + " is the name of " + *address + " here" : "";
}

Result<> resolve_local_addr(Resolving& job) {
    job.spec.local_addr = {"", "this node's end of its connection to the endpoint"};
    const auto given = job.options.find("local-addr");
    if (!given) return {};
    const auto address =
        resolve_local_address(given->text, job.system.interfaces, [&](const std::string& name) {
            return name == job.system.host_name ||
                   (job.system.has_address && job.system.has_address(name));
        });
    if (!address)
        return Failure{address.error().code, given->origin + ": " + address.error().context};
    job.spec.local_addr = {
        *address, given->text == *address ? given->origin : given->origin + "=" + given->text};
    return {};
}

Result<> resolve_ports(Resolving& job) {
    job.spec.ports = {PortRange{limits::first_store_port, limits::last_store_port}, by_default};
    const auto given = job.options.find("port-range");
    if (!given) return {};
    const auto dash = given->text.find('-');
    const auto first = parse_int(given->text.substr(0, dash));
    const auto last =
        dash == std::string::npos ? std::nullopt : parse_int(given->text.substr(dash + 1));
    if (!first || !last || *first < 1 || *last > 65'535 || *last - *first < fewest_ports - 1)
        return usage(
            given->origin,
            given->text,
            "accepted is FIRST-LAST with 1 <= FIRST < LAST <= 65535 and at least four ports");
    job.spec.ports = {
        PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)},
        given->origin};
    return {};
}

}  // namespace

Result<> resolve_network(Resolving& job) {
    if (auto done = resolve_local_addr(job); !done) return done.error();
    job.spec.has_legacy_c10d = job.options.has_flag("legacy-c10d");
    return resolve_ports(job);
}

Result<> resolve_own_name(Resolving& job) {
    job.spec.own_name_problem = own_name_problem(job);
    return {};
}

}  // namespace ddprun::launcher
