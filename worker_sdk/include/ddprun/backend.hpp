// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun {

/// How the ranks of a group exchange data. The numbers are part of the C interface.
enum class Backend : int {
    automatic =
        0,    ///< the fastest that this machine and this build have: today cpu, or loopback alone
    cpu = 1,  ///< between processes, buffers in the memory of the machine
    loopback = 2,  ///< inside this process; a world of one
    nccl = 4,      ///< between GPUs; buffers are in the memory of this rank's GPU
};

}  // namespace ddprun
