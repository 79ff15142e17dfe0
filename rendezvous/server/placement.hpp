// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// Server placement: decides which node of a job serves the rendezvous. Decided again at every
/// attempt, because a name may resolve late and addresses may change. Pure; the facts are gathered
/// by the agent's shell (interfaces.hpp and net::resolve). The table is in
/// docs/server-placement.md.
namespace ddprun::server {

/// Where a server listens.
struct ListenOn {
    enum class Scope : std::uint8_t {
        everywhere,  ///< one dual-stack wildcard socket
        loopback,    ///< 127.0.0.1, which must succeed, and then ::1 if it is free
        address,     ///< `address` only
    };
    Scope scope = Scope::everywhere;
    /// Numeric; with `Scope::address` only.
    std::string address;
    /// 0: any free port.
    std::uint16_t port = 0;

    bool operator==(const ListenOn&) const = default;
};

/// Where to listen; the rules are the same for a hosting `ddprun` and the daemon. If `address` (the
/// daemon's --host) is given, only there. If the endpoint's host is written as a loopback name or
/// address, on loopback only. Otherwise, also without a host, everywhere.
ListenOn listen_on(std::string_view written_host, std::string_view address, std::uint16_t port);

/// The facts at this attempt.
struct PlacementFacts {
    /// As given on the command line.
    Endpoint endpoint;
    /// Node rank 0 serves, at exactly that port, which is the workers' MASTER_PORT.
    bool is_static = false;
    std::optional<bool> is_host;
    int max_nodes = 1;
    std::optional<int> node_rank;
    /// Numeric addresses of the endpoint's host; empty: the name does not resolve (yet).
    std::vector<std::string> resolved;
    /// Numeric addresses of this machine's interfaces.
    std::vector<std::string> own;
    /// How long this node has tried the endpoint without an answer.
    Duration unanswered_for{};
    /// This attempt has tried to listen, and the port was in use; `held_by` may name the holder
    /// (net::listener_on_port).
    bool is_port_in_use = false;
    std::string held_by;

    /// Decided by the process name.
    bool is_held_by_ddprun() const;
};

struct Listen {
    ListenOn on;
    std::string reason;
    bool operator==(const Listen&) const = default;
};
struct Connect {
    std::string reason;
    bool operator==(const Connect&) const = default;
};
/// The options cannot work: exit with this message.
struct Refuse {
    std::string reason;
    bool operator==(const Refuse&) const = default;
};
using Placement = std::variant<Listen, Connect, Refuse>;

/// The reason is a sentence that uses the names of the options; --explain and messages show it.
Placement decide(const PlacementFacts& facts);

}  // namespace ddprun::server
