// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::agent {

/// Which leader this node obeys: that of the newest epoch it has heard of. A higher epoch ends the
/// obedience to a lower one for good, whatever the older leader believes of itself. How long the
/// orders of one leader are obeyed is the fence's (docs/fence.md). Servers that were not elected
/// all have epoch 0.
class Promise {
public:
    /// False: an older leader.
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
