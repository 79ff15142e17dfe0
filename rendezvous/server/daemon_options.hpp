// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/wire/query.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace ddprun::server {

/// The options of `ddprun-rendezvous`.
struct DaemonOptions {
    /// Address to listen on; empty: all.
    std::string host;
    std::uint16_t port = limits::default_rendezvous_port;
    /// An option says where to listen, so there must be no inherited sockets.
    bool is_place_given = false;
    log::Level log_level = log::Level::info;
    wire::Accepted accepted = wire::Accepted::current;
    /// The file with the secret that agents must prove; empty: none.
    std::string secret_file;
    /// The folder with a file for each tenant; empty: there are no tenants.
    std::string secret_dir;
    /// Suppresses the warning about a missing secret.
    bool is_insecure = false;

    bool operator==(const DaemonOptions&) const = default;
};

/// Text to print before exiting: help and version (0, standard output) or a usage error (2,
/// standard error).
struct ExitNow {
    int code = 0;
    std::string text;

    bool operator==(const ExitNow&) const = default;
};

std::variant<DaemonOptions, ExitNow> parse_daemon_options(int argc, const char* const* argv);

}  // namespace ddprun::server
