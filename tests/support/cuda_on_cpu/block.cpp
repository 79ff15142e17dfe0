// SPDX-License-Identifier: Apache-2.0
// Runs the threads of a block as fibers: one runs until it has to wait for the others, then the
// next.
#include "tests/support/cuda_on_cpu/kernel.hpp"
#include "tests/support/cuda_on_cpu/warp.hpp"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

// Presents each fiber as a thread to ThreadSanitizer, if that is used, with only the ordering that
// a GPU guarantees. So it finds races between a block's threads. This file itself is compiled
// without it.
extern "C" {
void* __tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_destroy_fiber(void* fiber) __attribute__((weak));
void* __tsan_get_current_fiber() __attribute__((weak));
void __tsan_switch_to_fiber(void* fiber, unsigned flags) __attribute__((weak));
void __tsan_acquire(void* address) __attribute__((weak));
void __tsan_release(void* address) __attribute__((weak));
void AnnotateIgnoreReadsBegin(const char* file, int line) __attribute__((weak));
void AnnotateIgnoreReadsEnd(const char* file, int line) __attribute__((weak));
void AnnotateIgnoreWritesBegin(const char* file, int line) __attribute__((weak));
void AnnotateIgnoreWritesEnd(const char* file, int line) __attribute__((weak));
// AddressSanitizer's: without them it takes each switch for a return, in a swapcontext that clears
// what it knows of the whole stack.
void __sanitizer_start_switch_fiber(void** frames, const void* stack, std::size_t bytes)
    __attribute__((weak));
void __sanitizer_finish_switch_fiber(void* frames, const void** stack, std::size_t* bytes)
    __attribute__((weak));
}

namespace cuda_on_cpu {

namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;
constexpr unsigned lanes_of_warp = 32;

/// CUDA_ON_CPU_ORDER=backward: the last blocks and threads run first. A kernel that depends on the
/// order, for lack of a __syncthreads(), then gives other results.
unsigned in_order(unsigned i, unsigned count) {
    static const bool is_backward = [] {
        const char* order = ::getenv("CUDA_ON_CPU_ORDER");
        return order && std::string_view{order} == "backward";
    }();
    return is_backward ? count - 1 - i : i;
}

bool is_watched() {
    return __tsan_switch_to_fiber != nullptr;
}

/// Orders this before a later `comes_after` with the same address.
void comes_before(void* address) {
    if (is_watched()) __tsan_release(address);
}

void comes_after(void* address) {
    if (is_watched()) __tsan_acquire(address);
}

/// While it lives, ThreadSanitizer ignores this thread, for example memory that is allocated and
/// freed here.
class Unseen {
public:
    Unseen() {
        if (!is_watched()) return;
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    Unseen(const Unseen&) = delete;
    Unseen& operator=(const Unseen&) = delete;
    ~Unseen() {
        if (!is_watched()) return;
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
};

/// Reused from block to block: at most one per thread of a block.
struct Fiber {
    Fiber() = default;
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber() {
        if (mapped && watched) __tsan_destroy_fiber(watched);
        if (mapped) ::munmap(mapped, bytes);
    }

    ucontext_t context{};
    jmp_buf left{};  ///< where it was
    bool has_begun = false;
    void* watched = nullptr;  ///< ThreadSanitizer's
    const void* stack = nullptr;
    std::size_t bytes = 0;
    void* mapped = nullptr;  ///< the stack, if it is not one of a thread of the process
};

/// Announces a switch to AddressSanitizer. The value is for `has_arrived`, where `from` goes on.
void* announce_switch(const Fiber& to) {
    void* frames = nullptr;
    if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&frames, to.stack, to.bytes);
    return frames;
}

/// `left`: the fiber whose stack is not known yet, from which this one was entered.
void has_arrived(void* frames, Fiber* left = nullptr) {
    if (!__sanitizer_finish_switch_fiber) return;
    __sanitizer_finish_switch_fiber(
        frames, left ? &left->stack : nullptr, left ? &left->bytes : nullptr);
}

/// Switches without the system calls that swapcontext makes each time; ThreadSanitizer only
/// supports the latter.
void leave(Fiber& from, Fiber& to) {
    if (is_watched()) {
        ::swapcontext(&from.context, &to.context);
        return;
    }
    void* const frames = announce_switch(to);
    from.has_begun = true;
    if (::_setjmp(from.left) == 0) {
        if (to.has_begun) ::_longjmp(to.left, 1);
        ::setcontext(&to.context);
    }
    has_arrived(frames);
}

/// Threads wait here until all of them have arrived. The values of a turn stay until all have
/// arrived in the next turn.
struct Barrier {
    struct Turn {
        std::uint64_t values[lanes_of_warp]{};
        std::uint32_t lanes = 0;
        int sum = 0;
    };
    Turn turns[2];
    std::uint64_t number = 0;
    unsigned arrived = 0;
};

class Block {
public:
    void run(const Kernel& kernel, const Shape& shape, const Dimensions& block, void** arguments);

    Place& place() { return place_; }
    int sync_block(int value);
    Said sync_warp(std::uint32_t mask, std::uint64_t value);
    std::uint32_t lanes_that_run() const;

private:
    struct Thread {
        Fiber* fiber = nullptr;
        const Barrier* waits_for = nullptr;
        std::uint64_t turn = 0;
        bool is_over = false;
    };

    static void fiber_main();
    void run_threads();
    void switch_to(Fiber& fiber);
    void wait_for(Barrier& barrier, std::uint64_t turn);
    void thread_ended();
    void end_turn(Barrier& barrier);
    Fiber& free_fiber();
    void prepare(Fiber& fiber) const;
    bool go_on(unsigned thread);
    [[noreturn]] void abort_with(const char* why) const;
    std::uint32_t lanes_there() const;
    std::uint32_t lanes_ended() const;

    const Kernel* kernel_ = nullptr;
    void** arguments_ = nullptr;
    std::vector<Thread> threads_;
    unsigned current_ = 0;
    unsigned next_ = 0;
    unsigned living_ = 0;
    Barrier all_;
    std::map<std::pair<unsigned, std::uint32_t>, Barrier> warps_;
    Place place_;

    Fiber home_;
    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::vector<Fiber*> free_;
    std::vector<Fiber*> ended_;  ///< the fibers that have ended in this block
    std::uint64_t begin_ = 0;    ///< for what comes_before and comes_after
    std::uint64_t end_ = 0;
    Fiber* running_ = nullptr;
};

/// One per thread of the process, kept until that thread ends.
Block& block() {
    struct Only {
        Block* block = nullptr;
        ~Only() {
            const Unseen here;
            delete std::exchange(block, nullptr);
        }
    };
    static thread_local Only only;
    if (!only.block) only.block = new Block;
    return *only.block;
}

void Block::abort_with(const char* why) const {
    std::fprintf(
        stderr,
        "kernel %s, block (%u, %u, %u), thread %u: %s\n",
        kernel_->name,
        place_.block.x,
        place_.block.y,
        place_.block.z,
        current_,
        why);
    std::abort();
}

void Block::run(const Kernel& kernel, const Shape& shape, const Dimensions& at, void** arguments) {
    const Unseen here;
    kernel_ = &kernel;
    arguments_ = arguments;
    place_.block = {at.x, at.y, at.z};
    place_.block_size = {shape.block.x, shape.block.y, shape.block.z};
    place_.grid_size = {shape.grid.x, shape.grid.y, shape.grid.z};
    threads_.assign(shape.block.x * shape.block.y * shape.block.z, {});
    living_ = static_cast<unsigned>(threads_.size());
    next_ = 0;
    all_ = {};
    warps_.clear();
    if (is_watched()) home_.watched = __tsan_get_current_fiber();
    free_.insert(free_.end(), ended_.begin(), ended_.end());
    ended_.clear();
    comes_before(&begin_);
    while (living_ > 0) {
        bool has_moved = false;
        if (next_ < threads_.size()) {
            switch_to(free_fiber());
            has_moved = true;
        }
        for (unsigned i = 0; i < threads_.size(); ++i)
            has_moved |= go_on(in_order(i, static_cast<unsigned>(threads_.size())));
        if (!has_moved) abort_with("all threads wait, for different things");
    }
    comes_after(&end_);
}

bool Block::go_on(unsigned thread) {
    auto& one = threads_[thread];
    if (!one.fiber || one.is_over || one.waits_for->number == one.turn) return false;
    auto& fiber = *one.fiber;
    one.fiber = nullptr;
    current_ = thread;
    switch_to(fiber);
    return true;
}

Fiber& Block::free_fiber() {
    if (!free_.empty()) {
        auto* fiber = free_.back();
        free_.pop_back();
        return *fiber;
    }
    prepare(*fibers_.emplace_back(std::make_unique<Fiber>()));
    return *fibers_.back();
}

void Block::prepare(Fiber& fiber) const {
    void* const stack = ::mmap(
        nullptr,
        stack_bytes,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        -1,
        0);
    if (stack == MAP_FAILED) abort_with("no memory for a stack");
    ::getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    ::makecontext(&fiber.context, &Block::fiber_main, 0);
    fiber.mapped = stack;
    fiber.stack = stack;
    fiber.bytes = stack_bytes;
    if (is_watched()) fiber.watched = __tsan_create_fiber(0);
}

void Block::switch_to(Fiber& fiber) {
    auto* from = running_ ? running_ : &home_;
    running_ = &fiber == &home_ ? nullptr : &fiber;
    constexpr unsigned without_order = 1;
    if (is_watched()) __tsan_switch_to_fiber(fiber.watched, without_order);
    leave(*from, fiber);
}

/// A fiber runs threads that have not begun, one after the other: if threads do not wait for each
/// other, one fiber is enough. With ThreadSanitizer each thread has its own fiber.
void Block::fiber_main() {
    auto& here = block();
    has_arrived(nullptr, &here.home_);
    for (;;) {
        here.run_threads();
        const Unseen bookkeeping;
        here.ended_.push_back(here.running_);
        here.switch_to(here.home_);
    }
}

void Block::run_threads() {
    while (next_ < threads_.size()) {
        current_ = in_order(next_++, static_cast<unsigned>(threads_.size()));
        const auto& size = place_.block_size;
        place_.thread = {current_ % size.x, current_ / size.x % size.y, current_ / size.x / size.y};
        comes_after(&begin_);
        kernel_->run_thread(arguments_);
        comes_before(&end_);
        thread_ended();
        if (is_watched()) return;
    }
}

void Block::thread_ended() {
    threads_[current_].is_over = true;
    --living_;
    if (living_ > 0 && all_.arrived == living_) end_turn(all_);
}

void Block::end_turn(Barrier& barrier) {
    ++barrier.number;
    barrier.arrived = 0;
    barrier.turns[barrier.number & 1] = {};
}

void Block::wait_for(Barrier& barrier, std::uint64_t turn) {
    const auto thread = current_;
    const auto place = place_.thread;
    auto& one = threads_[thread];
    one.fiber = running_;
    one.waits_for = &barrier;
    one.turn = turn;
    switch_to(home_);
    current_ = thread;
    place_.thread = place;
}

int Block::sync_block(int value) {
    const Unseen here;
    const auto turn = all_.number;
    auto& said = all_.turns[turn & 1];
    comes_before(&said);
    said.sum += value;
    if (++all_.arrived == living_)
        end_turn(all_);
    else
        wait_for(all_, turn);
    comes_after(&said);
    return said.sum;
}

std::uint32_t Block::lanes_there() const {
    const auto first = current_ / lanes_of_warp * lanes_of_warp;
    const auto count = static_cast<unsigned>(threads_.size()) - first;
    return count >= lanes_of_warp ? ~std::uint32_t{0} : (std::uint32_t{1} << count) - 1;
}

std::uint32_t Block::lanes_ended() const {
    const auto first = current_ / lanes_of_warp * lanes_of_warp;
    std::uint32_t ended = 0;
    for (unsigned lane = 0; lane < lanes_of_warp && first + lane < threads_.size(); ++lane)
        if (threads_[first + lane].is_over) ended |= std::uint32_t{1} << lane;
    return ended;
}

std::uint32_t Block::lanes_that_run() const {
    return lanes_there() & ~lanes_ended();
}

Said Block::sync_warp(std::uint32_t mask, std::uint64_t value) {
    const Unseen here;
    const auto lane = current_ % lanes_of_warp;
    const auto awaited = mask & lanes_there();
    if (!((mask >> lane) & 1U)) abort_with("calls a warp's function without being in its mask");
    if (awaited & lanes_ended()) abort_with("waits for a lane of its warp that has ended");
    auto& barrier = warps_[{current_ / lanes_of_warp, mask}];
    const auto turn = barrier.number;
    auto& said = barrier.turns[turn & 1];
    comes_before(&said);
    said.values[lane] = value;
    said.lanes |= std::uint32_t{1} << lane;
    if (said.lanes == awaited)
        end_turn(barrier);
    else
        wait_for(barrier, turn);
    comes_after(&said);
    Said all{};
    for (unsigned i = 0; i < lanes_of_warp; ++i)
        all.values[i] = said.values[i];
    all.lanes = said.lanes;
    all.lane = static_cast<int>(lane);
    return all;
}

std::vector<const Kernel*>& kernels() {
    static auto* const all = new std::vector<const Kernel*>;
    return *all;
}

}  // namespace

Place& place() {
    return block().place();
}

int sync_block(int value) {
    return block().sync_block(value);
}

Said sync_warp(std::uint32_t mask, std::uint64_t value) {
    return block().sync_warp(mask, value);
}

std::uint32_t lanes_that_run() {
    return block().lanes_that_run();
}

void run(const Kernel& kernel, const Shape& shape, void** arguments) {
    const auto& grid = shape.grid;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x; ++x) {
                const Dimensions at{in_order(x, grid.x), in_order(y, grid.y), in_order(z, grid.z)};
                block().run(kernel, shape, at, arguments);
            }
}

Registration::Registration(const Kernel& kernel) {
    kernels().push_back(&kernel);
}

const Kernel* find(const char* name) {
    for (const auto* kernel : kernels())
        if (std::string_view{kernel->name} == name) return kernel;
    return nullptr;
}

}  // namespace cuda_on_cpu

extern "C" __attribute__((visibility("default"))) const cuda_on_cpu::Kernel* cuda_on_cpu_find(
    const char* name) {
    return cuda_on_cpu::find(name);
}
