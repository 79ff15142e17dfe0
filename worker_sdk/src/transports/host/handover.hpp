// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/group_error.hpp"

#include <chrono>
#include <string>
#include <variant>

namespace ddprun::groups {

/// Gives a descriptor to processes of the same user that have a secret name. The name is in the
/// abstract namespace of unix sockets, so no file is created or left behind.
class Handover {
public:
    using Clock = std::chrono::steady_clock;

    /// Opens a listening socket.
    static std::variant<Handover, GroupError> open();

    Handover(Handover&& other) noexcept;
    Handover& operator=(Handover&&) = delete;
    ~Handover();

    const std::string& name() const { return name_; }

    /// Gives `descriptor` to one process that connects before `until`; false when none does.
    bool give(int descriptor, Clock::time_point until);

    /// The receiving side: returns the descriptor, closed on exec.
    static std::variant<int, GroupError> take(const std::string& name, Clock::time_point until);

private:
    Handover(int socket, std::string name);

    int socket_;
    std::string name_;
};

}  // namespace ddprun::groups
