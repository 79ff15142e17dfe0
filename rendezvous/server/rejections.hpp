// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::server {

/// Counts the connections that were turned away and decides which of them are logged: the first of
/// each peer address, so that a port scanner costs one line. Pure.
class Rejections {
public:
    /// `peer` is "10.0.0.2:51234". Returns true when it must be logged: its address is new, and
    /// fewer than `limits::max_remembered_peers` addresses are remembered.
    bool add(std::string_view peer);
    std::uint64_t count() const { return count_; }

private:
    std::uint64_t count_ = 0;
    std::set<std::string, std::less<>> addresses_;
};

}  // namespace ddprun::server
