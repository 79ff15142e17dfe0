// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/lease_options.hpp"

#include "launcher/grammar/number.hpp"
#include "launcher/resolve/resolving.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr const char* api_host_variable = "KUBERNETES_SERVICE_HOST";
constexpr const char* api_port_variable = "KUBERNETES_SERVICE_PORT";
constexpr std::size_t most_of_namespace = 63;
constexpr std::size_t most_of_name = 253;
constexpr int most_of_port = 65'535;

bool is_small_letter_or_digit(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

/// Labels with dots between them, as Kubernetes names a Lease. Such a name needs no escapes in the
/// path of a request.
bool is_name(std::string_view text) {
    if (text.size() > most_of_name) return false;
    const auto labels = split(text, '.');
    return std::all_of(labels.begin(), labels.end(), is_label);
}

Result<Endpoint> api_server(const Given& backend, const Environment& environment) {
    const auto host = value_of(environment, api_host_variable);
    const auto port = value_of(environment, api_port_variable);
    if (!host || host->empty() || !port)
        return usage(
            backend.origin,
            backend.text,
            std::string{"a Lease is for nodes in pods of Kubernetes, where "} + api_host_variable +
                " and " + api_port_variable + " are set; elsewhere use etcd");
    const auto number = parse_int(*port);
    if (!number || *number <= 0 || *number > most_of_port)
        return usage(api_port_variable, std::string{*port}, "accepted is a port from 1 to 65535");
    return Endpoint{std::string{*host}, static_cast<std::uint16_t>(*number)};
}

}  // namespace

bool is_label(std::string_view text) {
    const auto may_be_inside = [](char letter) {
        return is_small_letter_or_digit(letter) || letter == '-';
    };
    return !text.empty() && text.size() <= most_of_namespace &&
           std::all_of(text.begin(), text.end(), may_be_inside) &&
           is_small_letter_or_digit(text.front()) && is_small_letter_or_digit(text.back());
}

Result<witness::kubernetes::LeasePlace> choose_lease(
    const Given& backend, const std::optional<Given>& endpoint, const Environment& environment) {
    if (!endpoint)
        return usage(
            backend.origin,
            backend.text,
            "give the Lease of this job: --rdzv-endpoint=[NAMESPACE/]NAME");
    const auto parts = split(trimmed(endpoint->text), '/');
    witness::kubernetes::LeasePlace place;
    place.name = std::string{parts.back()};
    if (parts.size() == 2) place.space = std::string{parts.front()};
    const bool is_legible =
        is_name(place.name) && (parts.size() == 1 || (parts.size() == 2 && is_label(place.space)));
    if (!is_legible)
        return usage(
            endpoint->origin,
            endpoint->text,
            "accepted is [NAMESPACE/]NAME of a Lease: small letters, digits, '-', and in the name "
            "'.'");
    auto server = api_server(backend, environment);
    if (!server) return server.error();
    place.server = std::move(*server);
    return place;
}

}  // namespace ddprun::launcher
