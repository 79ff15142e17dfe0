// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// How a service manager starts a program with its sockets: the protocols of sd_listen_fds(3) and
/// sd_notify(3), which other managers speak as well. Pure; the shell is service_manager.hpp.
namespace ddprun::server {

/// The environment variables that are read. They are for this process only, so they are removed
/// from its environment.
inline constexpr std::array activation_variables{
    "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"};

struct Activation {
    /// Inherited descriptors of listening sockets; empty when there are none.
    std::vector<int> sockets;
    /// The manager's notification socket: a path, or an abstract name after "@"; empty: none.
    std::string notify_socket;

    bool operator==(const Activation&) const = default;
};

/// Returns the value of a variable, if it is set.
using Variable = std::function<std::optional<std::string>(const char* name)>;

/// The sockets passed to the process `self`, or an error that names the variable and its value.
/// Sockets for another process (variables left over from a parent) are ignored.
std::variant<Activation, std::string> read_activation(const Variable& variable, int self);

}  // namespace ddprun::server
