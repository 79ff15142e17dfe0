// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/counter.hpp"

#include <climits>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace ddprun::groups {

void Counter::set(std::uint32_t to) {
    // Sequentially consistent, like the load that follows it and the sleeper's store and load. So
    // either the sleeper reads the new value or this thread reads that there is a sleeper.
    value.store(to, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) wake();
}

void Counter::wake() {
    ::syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Counter::sleep(std::uint32_t target, std::chrono::milliseconds at_most) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    const auto seen = value.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - target) < 0) {
        const timespec time{
            static_cast<time_t>(at_most.count() / 1000),
            static_cast<long>(at_most.count() % 1000) * 1'000'000};
        ::syscall(SYS_futex, &value, FUTEX_WAIT, seen, &time, nullptr, 0);
    }
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void SpinPolicy::pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

void SpinPolicy::yield() {
    ::sched_yield();
}

}  // namespace ddprun::groups
