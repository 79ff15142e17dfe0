// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/shared_arena.hpp"

#include <sys/mman.h>

#include <utility>

namespace ddprun::groups {

namespace {

/// Pieces start at large-page boundaries, so that the kernel can use large pages.
constexpr std::size_t large_page = std::size_t{2} << 20;
constexpr std::size_t small_page = 4096;

std::size_t whole_pages_of(std::size_t bytes) {
    const auto size = bytes < large_page ? small_page : large_page;
    return (bytes + size - 1) / size * size;
}

}  // namespace

SharedArena::SharedArena(std::shared_ptr<Segment> segment, int rank)
    : segment_(std::move(segment)),
      start_(segment_->arena(rank)),
      ranges_(segment_->arena_bytes()) {}

void* SharedArena::take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > segment_->arena_bytes()) return nullptr;
    const auto found = ranges_.take(whole_pages_of(bytes));
    if (!found) return nullptr;
    ::madvise(start_ + *found, whole_pages_of(bytes), MADV_DODUMP);
    ::madvise(start_ + *found, whole_pages_of(bytes), MADV_HUGEPAGE);
    return start_ + *found;
}

void SharedArena::give_back(void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto size = whole_pages_of(bytes);
    ::madvise(data, size, MADV_REMOVE);  // frees the pages, which read as zero for the next user
    ::madvise(data, size, MADV_DONTDUMP);
    ranges_.give_back(static_cast<std::size_t>(static_cast<std::byte*>(data) - start_), size);
}

}  // namespace ddprun::groups
