// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "ddprun/world.hpp"
#include "tests/gpu/gpu.hpp"
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace gpu_check {

/// A communicator of a program that calls NCCL itself. The library is the one that the nccl backend
/// opens.
class ByHand {
public:
    enum class Kind { blocking, non_blocking };

    /// All ranks of the world call it. The arguments must outlive this object. `name`: the
    /// communicator's name in the store.
    ByHand(
        const ddprun::World& world,
        ddprun::Store& store,
        const Gpu& gpu,
        Kind kind,
        const std::string& name);
    ByHand(const ByHand&) = delete;
    ByHand& operator=(const ByHand&) = delete;

    /// Enqueues it; the sum of float.
    void all_reduce(void* data, std::size_t count);
    /// Waits until the device has finished all work.
    void wait() const { gpu_.synchronize(stream_); }
    /// An error that NCCL itself has noticed; none while there is none.
    std::optional<std::string> async_error() const;
    void abort();
    /// Called on every rank; returns on none before all have ended it: for a rank that is still
    /// ending it, a process that exits is a lost peer.
    void end();

private:
    void require(ddprun::nccl::abi::Result result);
    void await_ready();

    const ddprun::World& world_;
    ddprun::Store& store_;
    const Gpu& gpu_;
    std::string name_;
    ddprun::nccl::NcclFunctions nccl_;
    ddprun::nccl::abi::Communicator* comm_ = nullptr;
    Gpu::Stream stream_ = nullptr;
};

}  // namespace gpu_check
