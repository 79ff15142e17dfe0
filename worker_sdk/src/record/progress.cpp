// SPDX-License-Identifier: Apache-2.0
// The page with a worker's progress; ddprun/progress.hpp has its layout.
#include "ddprun/ddprun.h"
#include "worker_sdk/src/channel/page.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace {

constexpr std::uint64_t magic = 0x31474f5250504444;  // "DDPPROG1"

struct Page {
    std::uint64_t magic;
    std::atomic<std::uint64_t> step;
    std::atomic<std::uint64_t> reported_at_ns;
};

static_assert(sizeof(Page) == 24 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Mapped, with the descriptor open, until the process ends. Null where memfd is not available.
Page* make_page() {
    const int descriptor = ::memfd_create("ddprun-progress", MFD_CLOEXEC);
    if (descriptor < 0) return nullptr;
    void* memory = MAP_FAILED;
    if (::ftruncate(descriptor, sizeof(Page)) == 0)
        memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        ::close(descriptor);
        return nullptr;
    }
    return new (memory) Page{magic, {0}, {0}};
}

}  // namespace

extern "C" void ddprun_report_progress(uint64_t step) {
    static Page* const page = make_page();
    const auto now = ddprun::channel::boot_time_ns();
    ddprun::channel::report(step, now);
    if (!page) return;
    page->step.store(step, std::memory_order_relaxed);
    page->reported_at_ns.store(now, std::memory_order_release);
}

extern "C" int ddprun_should_save(uint64_t step) {
    return ddprun::channel::should_save(step) ? 1 : 0;
}

extern "C" void ddprun_saved(uint64_t step) {
    ddprun::channel::saved(step);
}

extern "C" ddprun_phase ddprun_set_phase(ddprun_phase phase) {
    return static_cast<ddprun_phase>(ddprun::channel::set_phase(static_cast<std::uint64_t>(phase)));
}
