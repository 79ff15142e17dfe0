// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/memory.hpp"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace ddprun::groups {

namespace {

/// Owns pages in use.
class Pages {
public:
    Pages(std::shared_ptr<Arena> arena, std::size_t bytes)
        : arena_(std::move(arena)),
          bytes_(bytes) {
        if (arena_) data_ = arena_->take(bytes_);
        if (data_) return;
        if (arena_ && !arena_->has_substitute()) throw std::bad_alloc();
        arena_ = nullptr;
        data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) throw std::bad_alloc();
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages() {
        if (arena_)
            arena_->give_back(data_, bytes_);
        else
            ::munmap(data_, bytes_);
    }

    void* data() const { return data_; }

private:
    std::shared_ptr<Arena> arena_;  // null: pages of the process
    void* data_ = nullptr;
    std::size_t bytes_;
};

struct Allocations {
    std::mutex mutex;
    std::map<void*, std::unique_ptr<Pages>> all;
};

/// Never destroyed: a program may free memory while it exits.
Allocations& allocations() {
    static auto* const instance = new Allocations;
    return *instance;
}

}  // namespace

void* allocate(std::shared_ptr<Arena> arena, std::size_t bytes) {
    auto pages = std::make_unique<Pages>(std::move(arena), bytes);
    void* const data = pages->data();
    const std::lock_guard lock(allocations().mutex);
    allocations().all.emplace(data, std::move(pages));
    return data;
}

void deallocate(void* memory) {
    decltype(Allocations::all)::node_type freed;  // outside of the lock
    const std::lock_guard lock(allocations().mutex);
    freed = allocations().all.extract(memory);
}

}  // namespace ddprun::groups
