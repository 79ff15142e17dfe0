// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"

#include <optional>
#include <string>

namespace ddprun::nccl {

/// Where a collective runs.
struct Target {
    const NcclFunctions& nccl;
    abi::Communicator* comm = nullptr;
    abi::Stream stream = nullptr;
    int rank = 0;
    int world_size = 1;
};

/// Why this NCCL version cannot perform the collective; none when it can.
std::optional<std::string> unsupported(const groups::Collective& collective, int version);

/// Enqueues a collective: one NCCL call, or a group of sends, receives or broadcasts. A barrier
/// reduces `scratch`, 4 bytes on the device. Send and recv use a communicator of two ranks, in
/// which the sender is 0. The result may be in_progress.
abi::Result enqueue(const Target& target, const groups::Collective& collective, void* scratch);

}  // namespace ddprun::nccl
