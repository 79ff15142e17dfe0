// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::agent {

/// Which leader this node follows: the one of the newest epoch that it has heard of. After a higher
/// epoch, messages of a lower one are never accepted again, even if the older leader still counts
/// itself as leader. How long one leader's orders are valid is decided by the fence
/// (docs/fence.md). Servers that were not elected all have epoch 0.
class Promise {
public:
    /// False: this is an older leader.
    bool follow(std::uint64_t epoch) {
        if (epoch < newest_epoch_) return false;
        newest_epoch_ = epoch;
        return true;
    }
    std::uint64_t newest_epoch() const { return newest_epoch_; }

private:
    std::uint64_t newest_epoch_ = 0;
};

}  // namespace ddprun::agent
