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

/// A communicator as a program has it that calls NCCL itself. The library is the one that the nccl
/// backend opens.
class ByHand {
public:
    enum class Kind { blocking, non_blocking };

    /// All ranks of the world call it. What is passed must outlive this. `name`: of this
    /// communicator, for the store.
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
    /// Until the device has done everything.
    void wait() const { gpu_.synchronize(stream_); }
    /// What NCCL has noticed by itself; nothing while all is well.
    std::optional<std::string> async_error() const;
    void abort();
    /// On every rank, and on none before all have ended it: to one that is still ending it a
    /// process that exits is a lost peer.
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
