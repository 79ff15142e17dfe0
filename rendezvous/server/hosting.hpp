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

/// Which node of a job serves the rendezvous, asked anew at
/// every attempt because names appear late and addresses move. Pure; the facts are gathered by the
/// agent's shell (interfaces.hpp and net::resolve). The table is in rendezvous/README.md.
namespace ddprun::server {

/// Where a server listens.
struct ListenOn {
    enum class Scope : std::uint8_t {
        everywhere,  ///< one dual-stack wildcard socket
        loopback,    ///< 127.0.0.1, which decides, and then ::1 if it is free
        address,     ///< `address` only
    };
    Scope scope = Scope::everywhere;
    /// Numeric; with `Scope::address` only.
    std::string address;
    /// 0: a free one.
    std::uint16_t port = 0;

    bool operator==(const ListenOn&) const = default;
};

/// The three rules, for a hosting `ddprun` and the daemon alike: `address` (--host) when given,
/// loopback only when the endpoint's host is written so, else (also when there is none) everywhere.
ListenOn listen_on(std::string_view written_host, std::string_view address, std::uint16_t port);

/// What is true at this attempt.
struct HostingFacts {
    /// As the person wrote it.
    Endpoint endpoint;
    /// --host: listen there instead of following the rules.
    std::string listen_address;
    /// Node rank 0 serves, at that port and no other, because workers were promised it.
    bool is_static = false;
    std::optional<bool> is_host;
    int max_nodes = 1;
    std::optional<int> node_rank;
    /// Numeric addresses of the endpoint's host; empty: the name does not resolve (yet).
    std::vector<std::string> resolved;
    /// Numeric addresses of this machine's interfaces.
    std::vector<std::string> own;
    /// How long this node has tried the endpoint without anybody answering.
    Duration unanswered_for{};
    /// Listening was tried in this attempt and the port was taken; `held_by` may name by whom
    /// (net::who_listens_on).
    bool is_port_in_use = false;
    std::string held_by;

    /// As far as a name can tell.
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
/// What the person asked for cannot work: exit with this sentence.
struct Refuse {
    std::string reason;
    bool operator==(const Refuse&) const = default;
};
using Hosting = std::variant<Listen, Connect, Refuse>;

/// The reason reads as a sentence in the words of the options; --explain and messages show it.
Hosting decide(const HostingFacts& facts);

}  // namespace ddprun::server
