// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::agent {

/// This node follows only the leader of the newest epoch that it has heard of. It never again
/// accepts a message of a lower epoch, even if the older leader still counts itself as leader. The
/// fence decides how long one leader's orders are valid (docs/fence.md). Servers that were not
/// elected all have epoch 0.
class Promise {
public:
    /// False: the epoch is that of an older leader.
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
