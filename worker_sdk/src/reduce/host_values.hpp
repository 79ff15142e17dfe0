// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"

#include <cstddef>

namespace ddprun::reduce {

/// Collectives on a few values in host memory, even when the group's buffers are on a GPU. Each
/// waits for its end, and throws like `Work::wait`.
void all_reduce_on_host(
    const ProcessGroup& group, void* data, std::size_t count, ElementType type, Op op);
void broadcast_on_host(
    const ProcessGroup& group, void* data, std::size_t count, ElementType type, int root);
void all_gather_on_host(
    const ProcessGroup& group,
    const void* input,
    void* output,
    std::size_t count,
    ElementType type);

template <class T>
void all_reduce_on_host(const ProcessGroup& group, T* data, std::size_t count, Op op) {
    all_reduce_on_host(group, data, count, ElementTypeOf<T>::value, op);
}
template <class T>
void broadcast_on_host(const ProcessGroup& group, T* data, std::size_t count, int root) {
    broadcast_on_host(group, data, count, ElementTypeOf<T>::value, root);
}
template <class T>
void all_gather_on_host(const ProcessGroup& group, const T* input, T* output, std::size_t count) {
    all_gather_on_host(group, input, output, count, ElementTypeOf<T>::value);
}

}  // namespace ddprun::reduce
