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

/// All that is read. They concern this process alone and are removed from its environment.
inline constexpr std::array activation_variables{
    "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"};

struct Activation {
    /// Descriptors of sockets that listen already; empty: there are none.
    std::vector<int> sockets;
    /// Where the manager receives notifications: a path, or a name behind "@"; empty: nowhere.
    std::string notify_socket;

    bool operator==(const Activation&) const = default;
};

/// The value of a variable, if it is set.
using Variable = std::function<std::optional<std::string>(const char* name)>;

/// What was handed to the process `self`; a text where that is not understood, which names the
/// variable and its value. Sockets for another process (a parent's variables that were left in
/// the environment) are none for this one.
std::variant<Activation, std::string> read_activation(const Variable& variable, int self);

}  // namespace ddprun::server
