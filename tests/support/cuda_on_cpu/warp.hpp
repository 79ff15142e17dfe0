// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/cuda_on_cpu/vectors.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

// A thread's position in its block, and its synchronization with the other threads.

namespace cuda_on_cpu {

struct Place {
    dim3 thread;
    dim3 block;
    dim3 block_size;
    dim3 grid_size;
};

/// The position of the thread that runs now.
Place& place();

/// Waits for all threads of the block that have not ended; returns the sum of their values.
int sync_block(int value);

/// The values of one warp's lanes in one call.
struct Said {
    std::uint64_t values[32];
    std::uint32_t lanes;  ///< the lanes that took part
    int lane;             ///< the caller's
};

/// Waits for the lanes in the mask.
Said sync_warp(std::uint32_t mask, std::uint64_t value);

std::uint32_t lanes_that_run();

/// The value of a lane that does not exist or has not taken part: all ones, for a float NaN.
template <class T>
T said_by(const Said& said, int lane) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    const bool is_there = (said.lanes >> lane) & 1U;
    const std::uint64_t bits = is_there ? said.values[lane] : ~std::uint64_t{0};
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T>
Said say(std::uint32_t mask, T value) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return sync_warp(mask, bits);
}

}  // namespace cuda_on_cpu

#define threadIdx (cuda_on_cpu::place().thread)
#define blockIdx (cuda_on_cpu::place().block)
#define blockDim (cuda_on_cpu::place().block_size)
#define gridDim (cuda_on_cpu::place().grid_size)

inline constexpr int warpSize = 32;

inline void __syncthreads() {
    cuda_on_cpu::sync_block(0);
}
inline int __syncthreads_count(int predicate) {
    return cuda_on_cpu::sync_block(predicate != 0);
}
inline int __syncthreads_or(int predicate) {
    return cuda_on_cpu::sync_block(predicate != 0) != 0;
}
inline int __syncthreads_and(int predicate) {
    return cuda_on_cpu::sync_block(predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffff) {
    cuda_on_cpu::sync_warp(mask, 0);
}
inline unsigned __activemask() {
    return cuda_on_cpu::lanes_that_run();
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const auto said = cuda_on_cpu::say(mask, std::uint64_t{predicate != 0});
    unsigned yes = 0;
    for (int lane = 0; lane < warpSize; ++lane)
        if (((said.lanes >> lane) & 1U) && said.values[lane] != 0) yes |= 1U << lane;
    return yes;
}
inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate == 0) == 0;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = warpSize) {
    const auto said = cuda_on_cpu::say(mask, value);
    return cuda_on_cpu::said_by<T>(said, (said.lane & ~(width - 1)) + (from & (width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = warpSize) {
    const auto said = cuda_on_cpu::say(mask, value);
    const int from = said.lane - static_cast<int>(distance);
    return from < (said.lane & ~(width - 1)) ? value : cuda_on_cpu::said_by<T>(said, from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = warpSize) {
    const auto said = cuda_on_cpu::say(mask, value);
    const int from = said.lane + static_cast<int>(distance);
    return from > (said.lane | (width - 1)) ? value : cuda_on_cpu::said_by<T>(said, from);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
    const auto said = cuda_on_cpu::say(mask, value);
    const int from = said.lane ^ lanes;
    return from > (said.lane | (width - 1)) ? value : cuda_on_cpu::said_by<T>(said, from);
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    const auto said = cuda_on_cpu::say(mask, value);
    unsigned sum = 0;
    for (int lane = 0; lane < warpSize; ++lane)
        if ((said.lanes >> lane) & 1U) sum += static_cast<unsigned>(said.values[lane]);
    return sum;
}

inline void __threadfence_block() {}
inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() {
    std::abort();
}
template <class T>
T __ldg(const T* from) {
    return *from;
}

// Other threads of the process may read such words meanwhile (host memory that is mapped on the
// device), so they are atomic here too. The order of arguments is CUDA's.
enum {
    __NV_ATOMIC_RELAXED = __ATOMIC_RELAXED,
    __NV_ATOMIC_ACQUIRE = __ATOMIC_ACQUIRE,
    __NV_ATOMIC_RELEASE = __ATOMIC_RELEASE,
    __NV_ATOMIC_ACQ_REL = __ATOMIC_ACQ_REL,
    __NV_ATOMIC_SEQ_CST = __ATOMIC_SEQ_CST,
};
enum { __NV_THREAD_SCOPE_BLOCK, __NV_THREAD_SCOPE_DEVICE, __NV_THREAD_SCOPE_SYSTEM };

template <class T>
T __nv_atomic_load_n(T* from, int, int = __NV_THREAD_SCOPE_SYSTEM) {
    return __atomic_load_n(from, __ATOMIC_SEQ_CST);
}
template <class T>
void __nv_atomic_store_n(T* to, T value, int, int = __NV_THREAD_SCOPE_SYSTEM) {
    __atomic_store_n(to, value, __ATOMIC_SEQ_CST);
}

namespace cuda_on_cpu {

/// The old value. Works for float and double as well.
template <class T, class Change>
T change(T* at, const Change& into) {
    T old;
    __atomic_load(at, &old, __ATOMIC_SEQ_CST);
    for (;;) {
        T wanted = into(old);
        if (__atomic_compare_exchange(at, &old, &wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return old;
    }
}

template <class T>
struct Same {
    using type = T;
};

}  // namespace cuda_on_cpu

template <class T>
T atomicAdd(T* at, typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicSub(T* at, typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T old) { return static_cast<T>(old - value); });
}
template <class T>
T atomicMax(T* at, typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* at, typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T old) { return value < old ? value : old; });
}
template <class T>
T atomicAnd(T* at, typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T old) { return old & value; });
}
template <class T>
T atomicOr(T* at, typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T old) { return old | value; });
}
template <class T>
T atomicExch(T* at, typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T) { return value; });
}
template <class T>
T atomicCAS(
    T* at,
    typename cuda_on_cpu::Same<T>::type expected,
    typename cuda_on_cpu::Same<T>::type value) {
    return cuda_on_cpu::change(at, [&](T old) { return old == expected ? value : old; });
}
inline unsigned atomicInc(unsigned* at, unsigned last) {
    return cuda_on_cpu::change(at, [&](unsigned old) { return old >= last ? 0U : old + 1; });
}
