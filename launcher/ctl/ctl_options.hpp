// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/control/command.hpp"

#include <optional>
#include <span>
#include <string>
#include <variant>

/// Parses the command line of `ddprunctl`.
namespace ddprun::launcher::ctl {

struct ListJobs {
    bool operator==(const ListJobs&) const = default;
};
struct ShowJob {
    bool operator==(const ShowJob&) const = default;
};
using control::RankRange;
/// The ranks to show; none: all ranks on this machine.
struct ShowStacks {
    std::optional<RankRange> ranks = std::nullopt;
    /// The native stacks as well.
    bool is_native = false;
    bool operator==(const ShowStacks&) const = default;
};
/// The file with the secret; none: the variable, or the file of --secure.
struct ShowToken {
    std::optional<std::string> secret_file;
    bool operator==(const ShowToken&) const = default;
};
/// Only prints a text: help, version, a completion script.
struct PrintText {
    std::string text;
    bool operator==(const PrintText&) const = default;
};

/// The rendezvous server that a command goes to, instead of the agents of this machine.
struct RemoteServer {
    Endpoint endpoint;
    /// The file with the secret; none: as with ShowToken.
    std::optional<std::string> secret_file = std::nullopt;

    bool operator==(const RemoteServer&) const = default;
};

struct CtlOptions {
    std::variant<
        ListJobs,
        ShowJob,
        control::StopJob,
        control::SignalWorkers,
        ShowStacks,
        control::DrainNodes,
        control::UndrainNodes,
        control::ResizeJob,
        ShowToken,
        PrintText>
        command;
    /// None: the only job.
    std::optional<std::string> run_id = std::nullopt;
    std::optional<int> pid = std::nullopt;
    bool is_json = false;
    std::optional<RemoteServer> server = std::nullopt;

    bool operator==(const CtlOptions&) const = default;
};

/// `arguments` has no program name.
Result<CtlOptions> parse_ctl_options(std::span<const std::string> arguments);

/// "USR1", "sigusr1", "10"; any signal of this system.
std::optional<int> parse_any_signal(std::string_view text);

}  // namespace ddprun::launcher::ctl
