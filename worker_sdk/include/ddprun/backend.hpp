// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun {

/// How the ranks of a group exchange data. The numbers are part of the C interface.
enum class Backend : int {
    automatic = 0,  ///< the fastest that is available: cpu today, or loopback for one rank
    cpu = 1,        ///< between processes; buffers are in host memory
    loopback = 2,   ///< inside this process, for a world of one
    nccl = 4,       ///< between GPUs; buffers are in the memory of this rank's GPU
};

}  // namespace ddprun
