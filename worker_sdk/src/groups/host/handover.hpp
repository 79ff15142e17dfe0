// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/trouble.hpp"

#include <chrono>
#include <string>
#include <variant>

namespace ddprun::groups {

/// Gives a descriptor to processes of the same user that know a name nobody can guess. The name is
/// in the abstract namespace of unix sockets: nothing in the file system, nothing left behind.
class Handover {
public:
    using Clock = std::chrono::steady_clock;

    /// Listens.
    static std::variant<Handover, Trouble> open();

    Handover(Handover&& other) noexcept;
    Handover& operator=(Handover&&) = delete;
    ~Handover();

    const std::string& name() const { return name_; }

    /// Gives `descriptor` to one who comes before `until`; false when nobody does.
    bool give(int descriptor, Clock::time_point until);

    /// The other side: the descriptor, closed on exec.
    static std::variant<int, Trouble> take(const std::string& name, Clock::time_point until);

private:
    Handover(int socket, std::string name);

    int socket_;
    std::string name_;
};

}  // namespace ddprun::groups
