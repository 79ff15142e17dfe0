// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// What `--explain=network` has found out about this machine and its way to the others.
struct NetworkFacts {
    std::string host_name;
    /// Why other nodes cannot reach it by that name; empty: they can, or need not.
    std::string own_name_problem;

    /// Port 0: a job of this node alone.
    Endpoint endpoint;
    std::vector<std::string> resolved;
    /// "this node serves: ...", and whether it does.
    std::string placement;
    bool is_serving = false;

    /// Of listening at the endpoint's port, on a node that serves; 0: it can.
    int listen_error = 0;
    /// The process that has the port.
    std::string holder;
    /// Ports of the range that were tried, and how many of them can be listened on.
    std::uint16_t first_port = 0;
    std::uint16_t last_port = 0;
    int ports_tried = 0;
    int ports_free = 0;

    /// Of a connection to the endpoint, on a node that does not serve; 0: it was accepted.
    int connect_error = 0;
    /// A server of ddprun answered.
    bool is_ddprun = false;
    /// That machine's clock minus this one's, to a second.
    std::optional<std::int64_t> clock_difference_s;

    /// Of the way to the endpoint; empty: none was found.
    std::string address;
    std::string interface;
    int mtu = 0;
    /// GLOO_SOCKET_IFNAME and its like that name no interface here: "NAME=VALUE".
    std::vector<std::string> unknown_interfaces;

    std::uint64_t shm_bytes = 0;
    std::uint64_t shm_free_bytes = 0;
    /// None: no limit.
    std::optional<std::uint64_t> memlock_bytes;
    bool has_infiniband = false;
    std::uint64_t file_limit = 0;
    /// A sentence where it is too low.
    std::string file_problem;
    int gpu_count = 0;
};

struct NetworkPage {
    std::string text;
    int problem_count = 0;
};

/// One screen: a line for each fact, and below a bad one what to do.
NetworkPage network_page(const NetworkFacts& facts);

}  // namespace ddprun::launcher
