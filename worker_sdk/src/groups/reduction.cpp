// SPDX-License-Identifier: Apache-2.0
// Built with -O3 in every configuration: all reduced bytes pass through here.
#include "worker_sdk/src/groups/reduction.hpp"

#include "worker_sdk/src/groups/arithmetic.hpp"

#include <string.h>

#include <algorithm>
#include <array>

namespace ddprun::groups {

namespace {

/// A block fits into the L1 cache together with an equally long block of a source.
constexpr std::size_t block_bytes = 8192;

template <class T, class Operation, bool is_average>
void reduce_blocks(
    const std::vector<const std::byte*>& sources,
    const std::vector<std::byte*>& targets,
    std::size_t count) {
    constexpr std::size_t block = block_bytes / sizeof(Wide<T>);
    alignas(64) std::array<Wide<T>, block> sum;
    alignas(64) std::array<T, block> result;
    const int ranks = static_cast<int>(sources.size());
    for (std::size_t start = 0; start < count; start += block) {
        const auto n = std::min(block, count - start);
        const auto* first = reinterpret_cast<const T*>(sources.front()) + start;
        if (ranks == 1) {
            for (std::size_t i = 0; i < n; ++i)
                sum[i] = widen(first[i]);
        } else {
            const auto* second = reinterpret_cast<const T*>(sources[1]) + start;
            for (std::size_t i = 0; i < n; ++i)
                sum[i] = Operation::apply(widen(first[i]), widen(second[i]));
        }
        for (std::size_t rank = 2; rank < sources.size(); ++rank) {
            const auto* next = reinterpret_cast<const T*>(sources[rank]) + start;
            for (std::size_t i = 0; i < n; ++i)
                sum[i] = Operation::apply(sum[i], widen(next[i]));
        }
        for (std::size_t i = 0; i < n; ++i)
            result[i] = narrow<T>(is_average ? divided(sum[i], ranks) : sum[i]);
        for (auto* target : targets)
            ::memcpy(target + start * sizeof(T), result.data(), n * sizeof(T));
    }
}

template <class T>
void reduce_type(
    Op op,
    const std::vector<const std::byte*>& sources,
    const std::vector<std::byte*>& targets,
    std::size_t count) {
    switch (op) {
        case Op::sum: return reduce_blocks<T, Sum, false>(sources, targets, count);
        case Op::average: return reduce_blocks<T, Sum, true>(sources, targets, count);
        case Op::min: return reduce_blocks<T, Minimum, false>(sources, targets, count);
        case Op::max: return reduce_blocks<T, Maximum, false>(sources, targets, count);
        case Op::product: return reduce_blocks<T, Product, false>(sources, targets, count);
    }
}

}  // namespace

void reduce_all(
    ElementType type,
    Op op,
    const std::vector<const std::byte*>& sources,
    const std::vector<std::byte*>& targets,
    std::size_t count) {
    with_type(
        type, [&](auto element) { reduce_type<decltype(element)>(op, sources, targets, count); });
}

}  // namespace ddprun::groups
