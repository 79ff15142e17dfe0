// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/xid_line.hpp"
#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

/// What an error of a GPU of this node's workers means for them. Pure.
namespace ddprun::agent::health {

enum class XidAction : std::uint8_t {
    /// In the log, and in the report of a worker that dies of it.
    shown,
    /// The program that uses the GPU cannot go on; the GPU can.
    restart,
    /// The GPU or the machine must be reset.
    unfit,
};

/// Follows NVIDIA's catalogue of Xids. For Xid 154 the driver names the action in the text.
XidAction action_of(const XidLine& line);

/// The restarts that errors of GPUs' memory have cost on this node (Xid 94). A GPU that costs the
/// third one within 24 hours is worn out: the node is unfit. Errors that a program's own mistake
/// may cause do not count.
class XidHistory {
public:
    /// Several lines of one round are one restart.
    XidAction add(const XidLine& line, int round, Instant now);
    /// Workers of this node use this GPU.
    void note_used(const std::string& gpu) { used_.insert(gpu); }
    bool has_been_used(const std::string& gpu) const { return used_.contains(gpu); }

private:
    struct Restart {
        int round;
        Instant at;
    };
    /// By GPU; those of the last 24 hours, three at most.
    std::map<std::string, std::vector<Restart>> restarts_;
    std::set<std::string> used_;
};

}  // namespace ddprun::agent::health
