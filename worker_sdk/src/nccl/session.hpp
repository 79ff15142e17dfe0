// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/nccl/calls.hpp"
#include "worker_sdk/src/nccl/communicators.hpp"
#include "worker_sdk/src/nccl/device.hpp"
#include "worker_sdk/src/nccl/flight.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"
#include "worker_sdk/src/nccl/overseer.hpp"
#include "worker_sdk/src/nccl/staging.hpp"

#include <array>
#include <functional>
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
/// in which a message was sent: on a common one a send would wait, on the GPU, for the work that
/// the peer has enqueued before its recv.
///
/// Collectives on the device are enqueued when they are launched, if that needs no waiting: the
/// device proceeds from one to the next by itself, and no thread is woken in between.
///
/// The host never blocks in CUDA: it polls an event and NCCL's asynchronous errors, and stops at
/// the timeout or when the group is aborted. The hang watchdog (`Overseer`) handles calls that
/// never return.
class Session {
public:
    static std::variant<std::unique_ptr<Session>, groups::GroupError> open(
        const NcclFunctions& nccl, const Device& device, const DdprunDeviceOpen& settings);

    Session(const NcclFunctions& nccl, const Device& device, const DdprunDeviceOpen& settings);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    /// Contracts of groups::Transport.
    groups::Outcome follow(const DdprunCollective& collective);
    std::variant<bool, groups::GroupError> begin(const DdprunCollective& collective);
    groups::Outcome run(const DdprunCollective& collective);
    /// Called by all its ranks, while nothing is in flight: one more communicator for the ranks
    /// with this color. An error aborts this session.
    std::variant<Communicators::Comm, groups::GroupError> split(int color, int key);
    void drop(Communicators::Comm part);
    void abort();
    bool is_broken();

    /// Aborts with this error, unless it was aborted before.
    void give_up(groups::GroupError why);
    /// Why it was aborted, if it was.
    groups::Outcome why_aborted();

    /// For Steps, which enqueues by itself: the communicator of all ranks, and what a call on it
    /// needs.
    Communicators& communicators() { return *comms_; }
    Communicators::Comm of_all() const { return all_; }
    Target target(DriverFunctions::Stream stream) const;
    const Device& device() const { return device_; }
    const NcclFunctions& nccl() const { return nccl_; }
    /// 1 on the device until the communicators are aborted.
    DriverFunctions::DevicePointer is_sound_word() const { return is_sound_->on_device(); }
    /// With steps, an abort may have to wait for the program's own work before a bucket.
    void note_steps();
    /// The deadline of an abort, and then of the kernels' end.
    std::chrono::milliseconds patience_after_abort() const { return comms_->abort_timeout(); }
    /// The timeout of a collective.
    std::chrono::milliseconds timeout() const;
    Patience patience() const;
    /// While it exists, this thread enqueues steps, in short calls.
    class Enqueuing {
    public:
        explicit Enqueuing(Session& session)
            : watch_(
                  session.overseer_,
                  Overseer::Work::steps,
                  session.last_moment_of(session.timeout())),
              here_(session.device_) {}

    private:
        const Overseer::Watch watch_;
        const OnDevice here_;
    };
    /// The check of a watchdog: whether a peer has gone, or NCCL has an error.
    groups::Outcome look();
    /// Waits until the work that an abort has ended has left its buffers (`is_over`). Does not
    /// return when that never happens.
    void await_idle(const std::function<bool()>& is_over) const;

private:
    using Comm = Communicators::Comm;
    using Joined = std::variant<Comm, groups::GroupError>;

    groups::Outcome start();
    void write_soundness(std::uint32_t word);
    Patience patience_for(std::chrono::milliseconds timeout) const;
    Clock::time_point last_moment_of(std::chrono::milliseconds timeout) const;
    Clock::time_point last_moment_after(Clock::time_point end) const;
    Joined join(
        const std::string& name, int rank, int world_size, int most_ctas, const Patience& patience);
    Joined take_part(const Patience& patience);
    Joined comm_of(const DdprunCollective& collective, const Patience& patience);
    static Overseer::Work work_of(const DdprunCollective& collective);
    static bool may_fly(const DdprunCollective& collective);
    groups::GroupError fail(groups::GroupError error);
    std::variant<bool, groups::GroupError> take_off(const DdprunCollective& collective);
    groups::Outcome await_taken(const Patience& patience);
    groups::Outcome land(const Patience& patience);
    groups::Outcome perform(
        const DdprunCollective& collective, Queue& queue, const Patience& patience);
    groups::Outcome enqueue_in(
        Queue& queue, Comm comm, const DdprunCollective& collective, const Patience& patience);
    groups::Outcome await(
        const std::function<DriverFunctions::Status()>& look, Comm comm, const Patience& patience);

    const NcclFunctions& nccl_;
    const Device device_;
    const DdprunDeviceOpen settings_;
    Overseer overseer_;
    DriverFunctions::DevicePointer scratch_ = 0;
    std::optional<Pinned> is_sound_;                // one word
    std::array<std::unique_ptr<Queue>, 3> queues_;  // by `Overseer::Work`
    std::optional<Flight> flight_;                  // in the first of them
    std::optional<Staging> staging_;                // used by the first of them
    std::mutex taking_mutex_;  // held while waiting for NCCL to enqueue the newest
    std::mutex reason_mutex_;
    groups::Outcome reason_;
    std::mutex messages_mutex_;
    std::map<std::pair<int, int>, Comm> messages_;  // by sender and receiver
    Comm all_ = nullptr;
    std::unique_ptr<Communicators> comms_;  // last: its destructor uses everything above
};

}  // namespace ddprun::nccl
