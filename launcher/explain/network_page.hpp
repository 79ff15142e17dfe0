// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What an attempt to reach a place has found.
struct ReachFacts {
    /// The error of connecting; 0: it was accepted.
    int connect_error = 0;
    /// A server of ddprun answered.
    bool is_ddprun = false;
    /// That machine's clock minus this one's, to a second.
    std::optional<std::int64_t> clock_difference_s;
};

/// A place besides the endpoint: a further one of a list, or the witness.
struct OtherPlace {
    enum class Kind : std::uint8_t { endpoint, witness };
    Kind kind = Kind::endpoint;
    Endpoint endpoint;
    std::vector<std::string> resolved;
    ReachFacts reach;
};

/// The facts that `--explain=network` has found about this machine and its connections to others.
struct NetworkFacts {
    std::string host_name;
    /// Why other nodes cannot reach it by its own name; empty: they can, or need not.
    std::string own_name_problem;

    /// Port 0: a job of this node alone.
    Endpoint endpoint;
    std::vector<std::string> resolved;
    /// "this node serves: ...", and whether it does.
    std::string placement;
    bool is_serving = false;

    /// The error of listening at the endpoint's port, on a node that serves; 0: none.
    int listen_error = 0;
    /// The process that occupies the port.
    std::string holder;
    /// The ports of the range that were tried, and how many of them were free.
    std::uint16_t first_port = 0;
    std::uint16_t last_port = 0;
    int ports_tried = 0;
    int ports_free = 0;

    /// The endpoint, on a node that does not serve.
    ReachFacts reach;
    std::vector<OtherPlace> others;

    /// The local address used towards the endpoint; empty: there is no route.
    std::string address;
    std::string interface;
    int mtu = 0;
    /// GLOO_SOCKET_IFNAME and similar variables that name no interface of this machine:
    /// "NAME=VALUE".
    std::vector<std::string> unknown_interfaces;

    std::uint64_t shm_bytes = 0;
    std::uint64_t shm_free_bytes = 0;
    /// None: no limit.
    std::optional<std::uint64_t> memlock_bytes;
    bool has_infiniband = false;
    std::uint64_t file_limit = 0;
    /// A message if the limit is too low.
    std::string file_problem;
    int gpu_count = 0;
};

struct NetworkPage {
    std::string text;
    int problem_count = 0;
};

/// One screen: a line for each fact, and advice below each bad one.
NetworkPage network_page(const NetworkFacts& facts);

}  // namespace ddprun::launcher
