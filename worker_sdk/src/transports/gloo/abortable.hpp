// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/common/error.h>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::groups {

/// A buffer whose waits can be ended from another thread. Gloo does not wake waits whose message
/// was half sent or half received when the connection broke; they would end only by their timeout.
class AbortableBuffer : public gloo::transport::UnboundBuffer {
public:
    using Milliseconds = std::chrono::milliseconds;
    using Live = std::set<AbortableBuffer*>;

    AbortableBuffer(
        std::unique_ptr<gloo::transport::UnboundBuffer> inner, std::mutex& mutex, Live& live)
        : UnboundBuffer(inner->ptr, inner->size),
          inner_(std::move(inner)),
          mutex_(mutex),
          live_(live) {
        const std::lock_guard lock(mutex_);
        live_.insert(this);
    }
    ~AbortableBuffer() override {
        const std::lock_guard lock(mutex_);
        live_.erase(this);
    }

    bool waitRecv(int* rank, Milliseconds timeout) override {
        return inner_->waitRecv(rank, timeout) || aborted();
    }
    bool waitSend(int* rank, Milliseconds timeout) override {
        return inner_->waitSend(rank, timeout) || aborted();
    }
    void abortWaitRecv() override { inner_->abortWaitRecv(); }
    void abortWaitSend() override { inner_->abortWaitSend(); }
    void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
        inner_->send(to, slot, offset, bytes);
    }
    void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
        inner_->recv(from, slot, offset, bytes);
    }
    void recv(
        std::vector<int> from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
        inner_->recv(std::move(from), slot, offset, bytes);
    }

private:
    [[noreturn]] static bool aborted() { throw gloo::IoException("aborted"); }

    std::unique_ptr<gloo::transport::UnboundBuffer> inner_;
    std::mutex& mutex_;
    Live& live_;
};

/// Gloo's transport with abortable buffers; everything else is forwarded to Gloo's.
class AbortableTransport : public gloo::transport::Context {
public:
    explicit AbortableTransport(std::shared_ptr<gloo::transport::Context> inner)
        : Context(inner->rank, inner->size),
          inner_(std::move(inner)) {
        setTimeout(inner_->getTimeout());
    }

    gloo::transport::Context& inner() { return *inner_; }

    std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override {
        return inner_->getPair(peer);
    }
    std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
        return inner_->createPair(peer);
    }
    std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(
        void* data, std::size_t bytes) override {
        auto buffer = std::make_unique<AbortableBuffer>(
            inner_->createUnboundBuffer(data, bytes), buffers_mutex_, buffers_);
        const std::lock_guard lock(buffers_mutex_);
        if (is_aborted_) wake(*buffer);
        return buffer;
    }

    void wake_all() {
        const std::lock_guard lock(buffers_mutex_);
        is_aborted_ = true;
        for (auto* buffer : buffers_)
            wake(*buffer);
    }

private:
    static void wake(AbortableBuffer& buffer) {
        buffer.abortWaitRecv();
        buffer.abortWaitSend();
    }

    std::shared_ptr<gloo::transport::Context> inner_;
    std::mutex buffers_mutex_;
    AbortableBuffer::Live buffers_;
    bool is_aborted_ = false;
};

class AbortableContext : public gloo::Context {
public:
    using Context::Context;

    /// Its pairs listen, and are not connected.
    std::shared_ptr<AbortableTransport> listen(std::shared_ptr<gloo::transport::Device> device) {
        auto pairs = device->createContext(rank, size);
        pairs->setTimeout(getTimeout());
        for (int peer = 0; peer < size; ++peer)
            if (peer != rank) pairs->createPair(peer);
        auto transport = std::make_shared<AbortableTransport>(std::move(pairs));
        device_ = std::move(device);
        transportContext_ = transport;
        return transport;
    }
};

}  // namespace ddprun::groups
