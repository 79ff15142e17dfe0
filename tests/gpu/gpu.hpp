// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/world.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpu_check {

/// A GPU as a program uses it without the SDK: the driver's functions, found at run time so that
/// this program builds and starts everywhere. Errors throw std::runtime_error with a message.
class Gpu {
public:
    using Stream = void*;

    /// The number of GPUs; throws if there is no driver.
    static int count();

    explicit Gpu(int ordinal);

    /// Makes it the calling thread's device.
    void enter() const;
    void upload(void* to, const void* from, std::size_t bytes) const;
    void download(void* to, const void* from, std::size_t bytes) const;
    /// Waits for all work in the stream.
    void synchronize(Stream stream) const;
    Stream new_stream() const;
    std::size_t used_bytes() const;
    /// Memory that stays until the process ends.
    void* allocate(std::size_t bytes) const;
    /// Enqueues it.
    void fill(void* data, unsigned char byte, std::size_t bytes, Stream stream) const;

    using Graph = void*;  ///< one that can be launched
    /// Records the work that `body` enqueues in the stream.
    template <class Body>
    Graph capture(Stream stream, const Body& body) const {
        begin_capture(stream);
        body();
        return end_capture(stream);
    }
    void launch(Graph graph, Stream stream) const;
    void destroy(Graph graph) const;

private:
    void begin_capture(Stream stream) const;
    Graph end_capture(Stream stream) const;

    void* context_ = nullptr;
};

/// The device that the nccl backend would choose too: that of this local rank, or the one that all
/// share.
int device_of(const ddprun::World& world);

/// One line on standard output, whole.
void say(const std::string& line);

/// Throws std::runtime_error unless it holds.
void expect(bool holds, const std::string& what);

}  // namespace gpu_check
