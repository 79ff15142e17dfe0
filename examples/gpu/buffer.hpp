// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check.hpp"
#include "stream.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace gpu {

inline CUdeviceptr address_of(const void* pointer) {
    return reinterpret_cast<CUdeviceptr>(pointer);
}

/// Copies in a stream. The host must not use its side until it has waited for the stream.
inline void upload(void* to, const void* from, std::size_t bytes, const Stream& stream) {
    if (bytes == 0) return;
    check(cuMemcpyHtoDAsync(address_of(to), from, bytes, stream.get()), "copying to the GPU");
}
inline void download(void* to, const void* from, std::size_t bytes, const Stream& stream) {
    if (bytes == 0) return;
    check(cuMemcpyDtoHAsync(to, address_of(from), bytes, stream.get()), "copying from the GPU");
}

/// Memory of the GPU, not initialized.
template <class T>
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t count) : count_(count) {
        if (count == 0) return;
        CUdeviceptr address = 0;
        check(
            cuMemAlloc(&address, count * sizeof(T)),
            "reserving " + std::to_string(count * sizeof(T)) + " bytes of the GPU's memory");
        data_ = reinterpret_cast<T*>(address);
    }
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          count_(std::exchange(other.count_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(count_, other.count_);
        return *this;
    }
    ~Buffer() {
        if (data_ != nullptr) cuMemFree(address_of(data_));
    }

    /// A pointer of the GPU, which the host must not dereference.
    T* data() const { return data_; }
    std::size_t count() const { return count_; }
    std::size_t bytes() const { return count_ * sizeof(T); }

    void zero(const Stream& stream) const {
        if (count_ == 0) return;
        check(cuMemsetD8Async(address_of(data_), 0, bytes(), stream.get()), "clearing memory");
    }
    /// Requires: `count` is at most count(). Asynchronous, like the functions above.
    void upload(const T* from, std::size_t count, const Stream& stream) const {
        gpu::upload(data_, from, count * sizeof(T), stream);
    }
    void download(T* to, std::size_t count, const Stream& stream) const {
        gpu::download(to, data_, count * sizeof(T), stream);
    }

private:
    T* data_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace gpu
