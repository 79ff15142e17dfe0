// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/memory_reserve.hpp"

#include <atomic>
#include <cstddef>
#include <new>

namespace ddprun {
namespace {

/// Small enough that the allocator keeps the freed block instead of returning it to the kernel.
constexpr std::size_t reserve_bytes = 64 * 1024;

std::atomic<char*> reserve{nullptr};

void give_back() {
    char* const given_back = reserve.exchange(nullptr);
    if (given_back == nullptr) throw std::bad_alloc{};
    delete[] given_back;
}

}  // namespace

bool keep_memory_reserve() {
    if (reserve.load() != nullptr) return true;
    std::set_new_handler(give_back);
    char* const taken = new (std::nothrow) char[reserve_bytes];
    char* none = nullptr;
    // Another thread may have set the reserve meanwhile.
    if (!reserve.compare_exchange_strong(none, taken)) delete[] taken;
    return reserve.load() != nullptr;
}

}  // namespace ddprun
