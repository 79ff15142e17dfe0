// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/sdk/fake_gpu/stream.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::tests {

/// A program's side of the fake GPU: one stream, in which plain functions are the kernels.
class Gpu {
public:
    enum class Stream { own, legacy };

    explicit Gpu(int device, Stream stream = Stream::own);
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;
    ~Gpu();

    void* stream() const { return stream_; }

    /// Enqueues a function that completes after this many polls of the device.
    void run(std::function<void()> kernel, int looks = 1) const;
    /// Enqueues work that takes this long.
    void work_for(std::chrono::milliseconds duration) const;
    /// Enqueues work that lasts until `is_done` is set.
    void work_until(const std::atomic<bool>& is_done) const;
    /// Captures the work that `enqueue` enqueues in a graph, which lives as long as this object.
    void* capture(const std::function<void()>& enqueue, int mode = relaxed) const;
    static constexpr int global = 0;  // CU_STREAM_CAPTURE_MODE_...
    static constexpr int relaxed = 2;
    void launch(void* graph) const;
    /// Waits until the stream is empty.
    void drain() const;

private:
    void enqueue(const fake_gpu::Work& work) const;
    template <class Function>
    Function function(const char* name) const;

    void* driver_;
    void* stream_ = nullptr;  // the legacy one
    mutable std::vector<void*> graphs_;
};

}  // namespace ddprun::tests
