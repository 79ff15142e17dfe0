// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/nccl/calls.hpp"
#include "worker_sdk/src/transports/nccl/calls_in_flight.hpp"
#include "worker_sdk/src/transports/nccl/communicators.hpp"
#include "worker_sdk/src/transports/nccl/device.hpp"
#include "worker_sdk/src/transports/nccl/group_context.hpp"
#include "worker_sdk/src/transports/nccl/hang_watchdog.hpp"
#include "worker_sdk/src/transports/nccl/staging.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

namespace ddprun::nccl {

class Session;

/// A communicator for a sub-group, split off by all ranks of another session.
struct SplitOff {
    Communicators::Comm part = nullptr;
    Session* parent = nullptr;
};

/// One group's collectives on this rank's GPU.
///
/// Collectives use a communicator of all ranks. Each pair of ranks has another communicator for
/// each direction in which a message was sent: on a shared one a send would wait, on the GPU, for
/// the work that the peer has enqueued before its recv.
///
/// Collectives on the device are enqueued when they are launched, if that needs no waiting: the
/// device proceeds from one to the next by itself, and no thread is woken in between.
///
/// The host never blocks in CUDA: it polls an event and NCCL's asynchronous errors, and stops at
/// the timeout or when the group is aborted. `HangWatchdog` handles calls that never return.
class Session {
public:
    /// Connects to the peers, or takes ownership of a part that was split off. Blocks. `context`
    /// must outlive the session.
    static std::variant<std::unique_ptr<Session>, groups::GroupError> open(
        const NcclFunctions& nccl,
        const Device& device,
        GroupContext& context,
        const std::optional<SplitOff>& split);

    Session(const NcclFunctions& nccl, const Device& device, GroupContext& context);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    /// Contracts of groups::Transport.
    groups::Outcome follow(const groups::Collective& collective);
    groups::Outcome precede(const groups::Collective& collective, DriverFunctions::Stream stream);
    std::variant<bool, groups::GroupError> begin(const groups::Collective& collective);
    groups::Outcome run(const groups::Collective& collective, std::chrono::milliseconds timeout);
    /// Called by all ranks while nothing is in flight: creates one more communicator for the ranks
    /// with this color. An error aborts this session.
    std::variant<Communicators::Comm, groups::GroupError> split(int color, int key);
    void drop(Communicators::Comm part);
    void abort();
    bool is_broken();

    /// Aborts the session with this error unless it was aborted before.
    void abort(groups::GroupError why);
    /// Why the session was aborted; none if it was not.
    groups::Outcome why_aborted();

    /// The communicator of all ranks, and what a call on it needs, for Steps, which enqueues its
    /// own calls.
    Communicators& communicators() { return *comms_; }
    Communicators::Comm of_all() const { return all_; }
    Target target(DriverFunctions::Stream stream) const;
    const Device& device() const { return device_; }
    const NcclFunctions& nccl() const { return nccl_; }
    /// Used by the group's memory, which may outlive this object.
    const std::shared_ptr<HangWatchdog>& hang_watchdog() const { return hang_watchdog_; }
    /// The device's address of a word in host memory that is 1 until the communicators are aborted.
    DriverFunctions::DevicePointer valid_flag() const { return valid_flag_->on_device(); }
    /// From now on an abort may have to wait for the program's own work between collectives.
    void note_own_work();
    /// The deadline of an abort, and afterwards of the kernels' end.
    std::chrono::milliseconds abort_timeout() const { return comms_->abort_timeout(); }
    /// The timeout of a collective.
    std::chrono::milliseconds timeout() const { return context_.timeout(); }
    Deadline deadline();
    /// While it exists, this thread enqueues steps, in short calls.
    class Enqueuing {
    public:
        explicit Enqueuing(Session& session)
            : watch_(
                  *session.hang_watchdog_,
                  HangWatchdog::Work::steps,
                  session.latest_end_of(session.timeout())),
              here_(session.device_) {}

    private:
        const HangWatchdog::Watch watch_;
        const OnDevice here_;
    };
    /// A watchdog's check: whether a peer has gone or NCCL has an error.
    groups::Outcome look();
    /// After an abort, waits until the aborted work no longer uses its buffers (`is_over`). Does
    /// not return when that never happens.
    void await_idle(const std::function<bool()>& is_over) const;

private:
    using Comm = Communicators::Comm;
    using Joined = std::variant<Comm, groups::GroupError>;

    groups::Outcome start(const std::optional<SplitOff>& split);
    void set_valid_flag(std::uint32_t word);
    Clock::time_point latest_end_of(std::chrono::milliseconds timeout) const;
    Clock::time_point latest_end_after(Clock::time_point end) const;
    Joined join(
        const std::string& name, int rank, int world_size, int most_ctas, GroupContext::Wait& wait);
    Joined comm_of(const groups::Collective& collective, GroupContext::Wait& wait);
    static HangWatchdog::Work work_of(const groups::Collective& collective);
    static bool can_be_in_flight(const groups::Collective& collective);
    groups::GroupError fail(groups::GroupError error);
    std::variant<bool, groups::GroupError> enqueue_now(const groups::Collective& collective);
    groups::Outcome await_enqueued(const Deadline& deadline);
    groups::Outcome precede_now(
        const groups::Collective& collective, DriverFunctions::Stream stream);
    groups::Outcome complete_oldest(const Deadline& deadline);
    groups::Outcome perform(
        const groups::Collective& collective, Queue& queue, GroupContext::Wait& wait);
    groups::Outcome enqueue_in(
        Queue& queue, Comm comm, const groups::Collective& collective, const Deadline& deadline);
    groups::Outcome await(
        const std::function<DriverFunctions::Status()>& look, Comm comm, const Deadline& deadline);

    const NcclFunctions& nccl_;
    const Device device_;
    GroupContext& context_;
    const std::shared_ptr<HangWatchdog> hang_watchdog_ = std::make_shared<HangWatchdog>();
    DriverFunctions::DevicePointer scratch_ = 0;
    std::optional<Pinned> valid_flag_;              // one word
    std::array<std::unique_ptr<Queue>, 3> queues_;  // by `HangWatchdog::Work`
    std::optional<CallsInFlight> in_flight_;        // in the first queue
    std::optional<Staging> staging_;                // used in the first queue
    std::mutex enqueued_mutex_;  // held while waiting until NCCL has enqueued the newest call
    std::mutex reason_mutex_;
    groups::Outcome reason_;
    std::mutex messages_mutex_;
    std::map<std::pair<int, int>, Comm> messages_;  // by sender and receiver
    Comm all_ = nullptr;
    std::unique_ptr<Communicators> comms_;  // last: its destructor uses everything above
};

}  // namespace ddprun::nccl
