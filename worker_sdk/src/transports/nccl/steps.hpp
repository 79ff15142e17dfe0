// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/transports/nccl/device_kernels.hpp"
#include "worker_sdk/src/transports/nccl/pinned.hpp"
#include "worker_sdk/src/transports/nccl/session.hpp"
#include "worker_sdk/src/transports/nccl/watchdog.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace ddprun::nccl {

/// The steps of a training loop on one GPU: how a Reducer uses a session.
///
/// Calls only enqueue: in the program's stream, which each call names, or concurrently in the
/// session's stream, where collectives run. The two wait for each other on the device. So the host
/// may be some steps ahead of a collective that never ends: a watchdog monitors it and aborts, and
/// the work behind it depends on the commit word. The program's stream may be under capture, except
/// in calls that exclude it.
///
/// One thread at a time. On a GroupError the caller ends the session (Session::abort).
class Steps {
public:
    using Pointer = DriverFunctions::DevicePointer;
    using Stream = DriverFunctions::Stream;
    using Status = DriverFunctions::Status;

    /// How many steps the host may be ahead.
    static constexpr std::size_t most_ahead = 4;

    static std::variant<std::unique_ptr<Steps>, groups::GroupError> open(Session& session);

    Steps(Session& session, const DeviceKernels& kernels);
    Steps(const Steps&) = delete;
    Steps& operator=(const Steps&) = delete;
    /// Waits for what is in flight.
    ~Steps();

    /// In device memory. The norm is that of the last `clip`.
    const std::uint32_t* commit_word() const;
    const float* norm() const;
    std::uint64_t committed_count() const;

    groups::Outcome zero(Stream program, Pointer data, std::size_t bytes);
    groups::Outcome copy(Stream program, Pointer to, Pointer from, std::size_t bytes);
    /// Reduces concurrently with the program's stream, after the work that is in it now. With
    /// `values`, these are sent as 16-bit floats in the collective's data, with the same count,
    /// each divided by the world size.
    groups::Outcome reduce(Stream program, const groups::Collective& collective, Pointer values);
    /// Makes the program's stream wait for all reductions, then sets the commit word. Unless
    /// captured, waits on the host for a step a few steps earlier.
    groups::Outcome finish(Stream program);
    groups::Outcome clip(Stream program, Pointer values, std::size_t count, float max_norm);
    /// Ends the step that was finished last.
    groups::Outcome end(Stream program);

    /// Launches captured steps. Like the functions below it must not be called under capture.
    groups::Outcome replay(Stream program, const std::function<void()>& launch);
    /// Waits on the host for the stream.
    groups::Outcome await(Stream program);
    /// Waits, then copies to host memory.
    groups::Outcome read(Stream program, void* to, Pointer from, std::size_t bytes);

    bool is_capturing(Stream program) const;

    /// Registers memory with NCCL, or deregisters it. Returns false when it cannot be registered,
    /// which costs only speed.
    bool register_memory(void* data, std::size_t bytes);
    void deregister_memory();

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
    std::vector<void*> registered_;
    std::optional<Watchdog> watchdog_;  // last: it uses the rest
};

}  // namespace ddprun::nccl
