// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/activation.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <limits>
#include <string_view>

namespace ddprun::server {
namespace {

/// Inherited descriptors follow the standard streams.
constexpr int first_inherited = 3;

std::optional<int> number_up_to(std::string_view text, int most) {
    const auto number = whole_number<int>(text);
    if (!number || *number < 1 || *number > most) return std::nullopt;
    return number;
}

std::string mistake(const char* name, const std::string& value, const std::string& accepted) {
    return std::string{name} + ": '" + value + "': accepted is " + accepted;
}

}  // namespace

std::variant<Activation, std::string> read_activation(const Variable& variable, int self) {
    Activation activation;
    activation.notify_socket = variable("NOTIFY_SOCKET").value_or("");
    const auto pid = variable("LISTEN_PID");
    const auto count = variable("LISTEN_FDS");
    if (!pid || !count) return activation;

    const auto for_process = number_up_to(*pid, std::numeric_limits<int>::max());
    if (!for_process) return mistake("LISTEN_PID", *pid, "the number of a process");
    if (*for_process != self) return activation;
    const auto sockets = number_up_to(*count, limits::max_inherited_sockets);
    if (!sockets)
        return mistake(
            "LISTEN_FDS",
            *count,
            "a number of sockets from 1 to " + std::to_string(limits::max_inherited_sockets));
    for (int i = 0; i < *sockets; ++i)
        activation.sockets.push_back(first_inherited + i);
    return activation;
}

}  // namespace ddprun::server
