// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/endpoint_list.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::launcher {
namespace endpoint_list {
namespace {

Failure wrong(std::string_view text, const std::string& why) {
    return {system_code(EINVAL), "'" + std::string{text} + "': " + why};
}

}  // namespace
}  // namespace endpoint_list

Result<std::vector<Endpoint>> parse_endpoint_list(
    std::string_view text, std::uint16_t default_port) {
    using endpoint_list::wrong;
    const auto parts = split(text, ',');
    std::vector<Endpoint> endpoints;
    for (const auto& part : parts) {
        if (parts.size() > 1 && trimmed(part).empty())
            return wrong(text, "there is nothing between two commas, or at an end");
        auto endpoint = parse_endpoint(part, default_port);
        if (!endpoint) return endpoint.error();
        if (parts.size() > 1 && endpoint->port == 0)
            return wrong(text, "in a list each endpoint needs a port of its own, not 0");
        if (std::find(endpoints.begin(), endpoints.end(), *endpoint) != endpoints.end())
            return wrong(text, endpoint->to_string() + " is named twice");
        endpoints.push_back(std::move(*endpoint));
    }
    if (endpoints.size() > max_endpoints)
        return wrong(text, "accepted are at most " + std::to_string(max_endpoints) + " endpoints");
    return endpoints;
}

}  // namespace ddprun::launcher
