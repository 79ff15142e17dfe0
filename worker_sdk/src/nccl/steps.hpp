// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/nccl/device_kernels.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"
#include "worker_sdk/src/nccl/pinned.hpp"
#include "worker_sdk/src/nccl/session.hpp"
#include "worker_sdk/src/nccl/watchdog.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace ddprun::nccl {

/// The steps of a training loop on one GPU: a Reducer's way through a session.
///
/// What is called here is only enqueued: in the program's stream, which each call names, or beside
/// it in a stream of its own, where collectives run. The two wait for each other on the device. So
/// the host may be some steps ahead of a collective that never ends: a watchdog looks after it and
/// aborts, and what is enqueued behind it goes by the commit word. The program's stream may be
/// under capture, but for the calls that say so.
///
/// One thread at a time. Trouble is for the caller to make an end of (Session::give_up).
class Steps {
public:
    using Pointer = DriverFunctions::DevicePointer;
    using Stream = DriverFunctions::Stream;
    using Status = DriverFunctions::Status;

    /// How many steps the host may be ahead.
    static constexpr std::size_t most_ahead = 4;

    static std::variant<std::unique_ptr<Steps>, groups::Trouble> open(Session& session);

    Steps(Session& session, const DeviceKernels& kernels);
    Steps(const Steps&) = delete;
    Steps& operator=(const Steps&) = delete;
    /// Waits for what is in flight.
    ~Steps();

    /// Words in the device's memory, and a counter in the machine's.
    DdprunStepWords words() const;

    groups::Outcome zero(Stream program, Pointer data, std::size_t bytes);
    groups::Outcome copy(Stream program, Pointer to, Pointer from, std::size_t bytes);
    /// Beside the program's stream, after what is in it now. With `values`: these travel as the
    /// collective's data, which has their count of 16-bit floats, each as its world-size-th part.
    groups::Outcome reduce(Stream program, const DdprunCollective& collective, Pointer values);
    /// The program's stream waits for all that was reduced; then the commit word is decided. Waits
    /// on the host, unless captured, for a step some steps before.
    groups::Outcome finish(Stream program);
    groups::Outcome clip(Stream program, Pointer values, std::size_t count, float max_norm);
    /// The end of the step that was finished last.
    groups::Outcome end(Stream program);

    /// Launches captured steps. Not under capture, like what follows.
    groups::Outcome replay(Stream program, void (*launch)(void* self), void* self);
    /// Waits on the host.
    groups::Outcome await(Stream program);
    /// Waits, and then copies to the machine's memory.
    groups::Outcome read(Stream program, void* to, Pointer from, std::size_t bytes);

    bool is_capturing(Stream program) const;

    /// Makes memory known to NCCL, or not any more. False: it stays unknown, which costs speed.
    bool enroll(void* data, std::size_t bytes);
    void dismiss();

private:
    groups::Outcome start();
    groups::Outcome latch(Stream program);
    groups::Outcome outcome_of(Status status) const;
    groups::Outcome await_slot();
    template <class IsOver>
    groups::Outcome await_until(const IsOver& is_over);
    groups::Outcome await_event(DriverFunctions::Event event);
    bool has_ended(DriverFunctions::Event event) const;

    Session& session_;
    const DeviceKernels kernels_;
    const DriverFunctions& driver_;
    Queue queue_;
    Pointer memory_ = 0;  // commit word, norm, sums
    std::optional<Pinned> counter_;
    std::optional<Pinned> staging_;
    std::array<DriverFunctions::Event, most_ahead> ends_{};
    std::size_t next_end_ = 0;
    DriverFunctions::Event awaited_ = nullptr;
    bool has_reduced_ = false;
    std::vector<void*> enrolled_;
    std::optional<Watchdog> watchdog_;  // last: it looks at the rest
};

}  // namespace ddprun::nccl
