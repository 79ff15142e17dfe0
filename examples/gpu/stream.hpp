// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check.hpp"

#include <utility>

namespace gpu {

/// A driver handle with one owner.
template <class Handle, CUresult (*destroy)(Handle)>
class Owned {
public:
    Owned() = default;
    explicit Owned(Handle handle) : handle_(handle) {}
    Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Owned() {
        if (handle_ != nullptr) destroy(handle_);
    }

    Handle get() const { return handle_; }
    explicit operator bool() const { return handle_ != nullptr; }

private:
    Handle handle_ = nullptr;
};

/// Work for the GPU, performed in the order in which it was enqueued; streams run concurrently.
class Stream {
public:
    Stream() {
        CUstream stream = nullptr;
        check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "making a stream");
        stream_ = decltype(stream_){stream};
    }

    CUstream get() const { return stream_.get(); }
    /// Returns when all its work is done. Throws the errors of that work.
    void wait() const { check(cuStreamSynchronize(get()), "waiting for the GPU"); }

private:
    Owned<CUstream, cuStreamDestroy> stream_;
};

/// A moment in a stream.
class Event {
public:
    Event() {
        CUevent event = nullptr;
        check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event");
        event_ = decltype(event_){event};
    }

    CUevent get() const { return event_.get(); }
    void record(const Stream& stream) {
        check(cuEventRecord(get(), stream.get()), "recording an event");
    }
    /// Work that is enqueued in `stream` from now on begins after this event.
    void hold(const Stream& stream) const {
        check(cuStreamWaitEvent(stream.get(), get(), 0), "waiting for an event in a stream");
    }
    bool is_over() const {
        const auto result = cuEventQuery(get());
        if (result != CUDA_ERROR_NOT_READY) check(result, "asking for an event");
        return result == CUDA_SUCCESS;
    }
    void wait() const { check(cuEventSynchronize(get()), "waiting for the GPU"); }

private:
    Owned<CUevent, cuEventDestroy> event_;
};

}  // namespace gpu
