// SPDX-License-Identifier: Apache-2.0
#include "launcher/network_options.hpp"

#include "launcher/number.hpp"
#include "rendezvous/base/limits.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::launcher {
namespace {

/// Three are in use at once: the round's store, the one after it, the neighbours' port.
constexpr int fewest_ports = 4;

Result<> resolve_local_addr(Resolving& job) {
    job.spec.local_addr = {"", "this node's end of its connection to the endpoint"};
    const auto given = job.options.find("local-addr");
    if (!given) return {};
    const auto address =
        resolve_local_address(given->text, job.around.interfaces, [&](const std::string& name) {
            return name == job.around.host_name ||
                   (job.around.has_address && job.around.has_address(name));
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
    return resolve_ports(job);
}

}  // namespace ddprun::launcher
