// SPDX-License-Identifier: Apache-2.0
#include "launcher/server_placement.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/server/placement.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <variant>

namespace ddprun::launcher {
namespace {

std::vector<std::string> resolve_now(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    if (getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return {};
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner{first, &freeaddrinfo};
    std::vector<std::string> addresses;
    for (const auto* entry = first; entry != nullptr; entry = entry->ai_next) {
        std::array<char, INET6_ADDRSTRLEN> text{};
        const void* address =
            entry->ai_family == AF_INET
                ? static_cast<const void*>(
                      &reinterpret_cast<const sockaddr_in*>(entry->ai_addr)->sin_addr)
                : &reinterpret_cast<const sockaddr_in6*>(entry->ai_addr)->sin6_addr;
        if (inet_ntop(entry->ai_family, address, text.data(), text.size()) != nullptr)
            addresses.emplace_back(text.data());
    }
    return addresses;
}

/// What is decided for one place alone is decided for the first one.
server::PlacementFacts facts_of(
    const JobSpec& spec, const SystemInfo& system, const Endpoint& endpoint) {
    server::PlacementFacts facts;
    facts.endpoint = endpoint;
    facts.max_nodes = spec.nodes.value.max;
    facts.resolved = resolve_now(endpoint.host);
    for (const auto& entry : system.interfaces)
        facts.own.push_back(entry.address);
    if (endpoint != spec.endpoint.value) return facts;
    facts.is_static = spec.is_static.value;
    facts.is_host = spec.is_host.value;
    facts.node_rank = spec.node_rank.value;
    return facts;
}

}  // namespace

std::string server_placement(const JobSpec& spec, const SystemInfo& system) {
    const auto& election = spec.election.value;
    if (election && !election->has_voters())
        return std::string{"no node is special: the one whose server holds the job's "} +
               agent::by_engine(*election, "key in etcd", "Lease in Kubernetes") +
               " serves, and when it is gone another one follows";
    const auto decision = server::decide(facts_of(spec, system, spec.endpoint.value));
    auto text = std::visit(
        Overloaded{
            [](const server::Listen& listen) { return "this node serves: " + listen.reason; },
            [](const server::Connect& connect) { return "another node serves: " + connect.reason; },
            [](const server::Refuse& refuse) { return "this cannot work: " + refuse.reason; }},
        decision);
    if (election) text += "; when it is gone the nodes of the round elect another one";
    if (const auto& witness = spec.witness.value)
        text += ", with the vote of the witness at " + witness->to_string();
    for (const auto& endpoint : spec.more_endpoints) {
        const auto more = server::decide(facts_of(spec, system, endpoint));
        if (std::holds_alternative<server::Listen>(more))
            text += "; nodes that start find the job here too, at " + endpoint.to_string();
    }
    return text;
}

}  // namespace ddprun::launcher
