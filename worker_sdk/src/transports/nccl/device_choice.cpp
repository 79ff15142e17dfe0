// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/device_choice.hpp"

#include <algorithm>
#include <string>

namespace ddprun::nccl {

namespace {

using groups::GroupError;

GroupError without_device(const std::string& why) {
    return {GroupError::Kind::usage, why};
}

}  // namespace

std::variant<DeviceChoice, GroupError> choose_device(
    int visible, int local_rank, int local_world_size, bool shares) {
    if (visible < 1)
        return without_device(
            "this process sees no GPU (is CUDA_VISIBLE_DEVICES empty, or a device missing in the "
            "container?)");
    if (shares) return DeviceChoice{local_rank % visible, 1};
    const int each = std::max(visible / std::max(local_world_size, 1), 1);
    const int first = local_rank * each;
    if (first + each <= visible) return DeviceChoice{first, each};
    // The only visible device has number 0 in each process.
    if (visible == 1) return DeviceChoice{0, 1};
    return without_device(
        std::to_string(local_world_size) + " ranks on this node and " + std::to_string(visible) +
        " GPUs: there is none for local rank " + std::to_string(local_rank) +
        "; start at most as many ranks as GPUs (--nproc-per-node=gpu), or let them share for "
        "tests: --share-gpu");
}

}  // namespace ddprun::nccl
