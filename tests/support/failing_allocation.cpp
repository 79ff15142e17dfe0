// SPDX-License-Identifier: Apache-2.0
#include "tests/support/failing_allocation.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>
#include <optional>

namespace ddprun::test {
namespace {

thread_local std::optional<std::size_t> allowed_allocations;
thread_local std::size_t reserve = 0;
thread_local bool has_one_failed = false;

bool may_allocate() {
    if (!allowed_allocations) return true;
    if (*allowed_allocations == 0) {
        has_one_failed = true;
        return false;
    }
    --*allowed_allocations;
    return true;
}

void give_back(void* memory) {
    if (allowed_allocations && has_one_failed && ::malloc_usable_size(memory) >= reserve)
        allowed_allocations.reset();
    std::free(memory);
}

}  // namespace

FailingAllocation::FailingAllocation(std::size_t allowed, std::size_t reserve_bytes) {
    allowed_allocations = allowed;
    reserve = reserve_bytes;
    has_one_failed = false;
}

FailingAllocation::~FailingAllocation() {
    allowed_allocations.reset();
}

bool FailingAllocation::has_failed() const {
    return has_one_failed;
}

}  // namespace ddprun::test

// All of them are replaced: a sanitizer would provide the missing ones, and report the mixture.

void* operator new(std::size_t size) {
    for (;;) {
        void* memory = ddprun::test::may_allocate() ? std::malloc(size == 0 ? 1 : size) : nullptr;
        if (memory != nullptr) return memory;
        const auto handler = std::get_new_handler();
        if (handler == nullptr) throw std::bad_alloc{};
        handler();
    }
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    try {
        return ::operator new(size);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void* operator new[](std::size_t size) {
    return ::operator new(size);
}

void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
    return ::operator new(size, tag);
}

void operator delete(void* memory) noexcept {
    ddprun::test::give_back(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
    ddprun::test::give_back(memory);
}

void operator delete(void* memory, const std::nothrow_t&) noexcept {
    ddprun::test::give_back(memory);
}

void operator delete[](void* memory) noexcept {
    ddprun::test::give_back(memory);
}

void operator delete[](void* memory, std::size_t) noexcept {
    ddprun::test::give_back(memory);
}

void operator delete[](void* memory, const std::nothrow_t&) noexcept {
    ddprun::test::give_back(memory);
}
