// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/nccl/communicators.hpp"
#include "worker_sdk/src/nccl/device.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"
#include "worker_sdk/src/nccl/overseer.hpp"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun::nccl {

/// The transport of one group on this rank's GPU.
///
/// Collectives have a communicator of all ranks. Each pair of ranks has one more for each direction
/// in which a message was sent: on a common one a send would wait, on the GPU, for what the peer
/// has enqueued before its recv.
///
/// The host never waits in CUDA: it asks an event until it is over, looks at what NCCL has noticed
/// meanwhile, and leaves when the time is over or when the group is aborted. An Overseer is there
/// for calls that never come back.
class Session {
public:
    static std::variant<std::unique_ptr<Session>, groups::Trouble> open(
        const NcclFunctions& nccl, const Device& device, const DdprunDeviceOpen& settings);

    Session(const NcclFunctions& nccl, const Device& device, const DdprunDeviceOpen& settings);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    /// Contracts of groups::Transport.
    groups::Outcome run(const DdprunCollective& collective);
    void abort();
    bool is_broken();

private:
    using Comm = Communicators::Comm;
    using Joined = std::variant<Comm, groups::Trouble>;

    groups::Outcome start();
    Patience patience_for(std::chrono::milliseconds timeout) const;
    Clock::time_point last_moment_of(std::chrono::milliseconds timeout) const;
    Joined join(
        const std::string& name, int rank, int world_size, int most_ctas, const Patience& patience);
    Joined comm_of(const DdprunCollective& collective, const Patience& patience);
    static Overseer::Work work_of(const DdprunCollective& collective);
    groups::Outcome perform(
        const DdprunCollective& collective, Queue& queue, const Patience& patience);
    groups::Outcome await(Queue& queue, Comm comm, const Patience& patience);
    void await_idle(const Queue& queue);
    groups::Trouble driver_trouble(DriverFunctions::Status status) const;

    const NcclFunctions& nccl_;
    const Device device_;
    const DdprunDeviceOpen settings_;
    Overseer overseer_;
    DriverFunctions::DevicePointer scratch_ = 0;
    std::array<std::unique_ptr<Queue>, 3> queues_;  // by Overseer::Work
    std::mutex messages_mutex_;
    std::map<std::pair<int, int>, Comm> messages_;  // by sender and receiver
    Comm all_ = nullptr;
    std::optional<Communicators> comms_;  // last: its end uses everything above
};

}  // namespace ddprun::nccl
