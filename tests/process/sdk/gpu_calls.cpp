// SPDX-License-Identifier: Apache-2.0
// Scenarios of a rank with a fake GPU that use only a group.
#include "ddprun/error.hpp"
#include "tests/process/sdk/gpu_scenarios.hpp"
#include "tests/process/sdk/gpu_trainee.hpp"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

namespace ddprun::tests {

namespace {

using namespace std::chrono_literals;

/// The last rank never makes the call that the others launch.
void come_or_pause(const ProcessGroup& group) {
    group.barrier().wait();
    if (group.rank() < group.size() - 1) return;
    say("ready");
    for (;;)
        ::pause();
}

/// An older NCCL moves 8-bit floats but cannot reduce them: reductions are refused, and the group
/// continues.
void float8_of_old_nccl(const ProcessGroup& on_gpu, const ProcessGroup&) {
    std::vector<Float8E4M3> values(100, Float8E4M3(1.5F));
    on_gpu.broadcast(values.data(), values.size()).wait();
    try {
        on_gpu.all_reduce(values.data(), values.size()).wait();
        expect(false, "a reduction that NCCL does not have");
    } catch (const UsageError& error) {
        say(error.what());
    }
    on_gpu.barrier().wait();
}

/// The call begins after the work that is already in the stream.
void after_stream(const ProcessGroup& on_gpu, const ProcessGroup&) {
    expect(on_gpu.device() == on_gpu.rank(), "the device of the local rank");
    const Gpu gpu(on_gpu.device());
    Values values(100);
    gpu.run(
        [&] { std::fill(values.begin(), values.end(), static_cast<float>(on_gpu.rank() + 1)); }, 5);
    on_gpu.use_stream(gpu.stream());
    on_gpu.all_reduce(values.data(), values.size()).wait();
    const auto ranks = static_cast<float>(on_gpu.size());
    expect(values == Values(100, ranks * (ranks + 1) / 2), "what the stream had to do");
}

/// The call does not wait for work that is enqueued later: a message begins later, when its two
/// ranks have connected, and by then the stream is in a capture.
void before_later_work(const ProcessGroup& on_gpu, const ProcessGroup&) {
    const Gpu gpu(on_gpu.device());
    const bool sends = on_gpu.rank() == 0;
    Values values(100);
    on_gpu.use_stream(gpu.stream());
    if (sends) gpu.run([&] { std::fill(values.begin(), values.end(), 7.0F); }, 5);
    auto work = sends ? on_gpu.send(values.data(), values.size(), 1)
                      : on_gpu.recv(values.data(), values.size(), 0);
    void* const graph = gpu.capture([&] {
        work.wait();
        gpu.run([&] { std::fill(values.begin(), values.end(), 8.0F); });
    });
    expect(values == Values(100, 7), "the message");
    gpu.launch(graph);
    gpu.drain();
    expect(values == Values(100, 8), "what was captured");
}

/// Work in the stream begins after the call, for which the host does not wait: the last rank makes
/// it only when all others have enqueued what follows.
void wait_in(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    const Gpu gpu(on_gpu.device());
    const auto ranks = static_cast<float>(on_gpu.size());
    Values values(100, 1);
    Values seen;
    on_gpu.use_stream(gpu.stream());
    const bool is_late = on_gpu.rank() == on_gpu.size() - 1;
    if (is_late) on_cpu.barrier().wait();
    {
        auto work = on_gpu.all_reduce(values.data(), values.size());
        work.wait_in(gpu.stream());
        work.wait();  // nothing is left to wait for
    }
    gpu.run([&] { seen = values; });
    if (!is_late) on_cpu.barrier().wait();
    gpu.drain();
    expect(seen == Values(100, ranks), "what the stream has seen");
}

/// The host is at most some calls ahead, each call sees what the stream has done before it, and a
/// group waits for what is left to it.
void wait_in_many(const ProcessGroup& on_gpu, const ProcessGroup&) {
    constexpr int calls = 200;
    constexpr int most_ahead = 18;
    const Gpu gpu(on_gpu.device());
    Values values(100, static_cast<float>(on_gpu.rank()));
    std::atomic<int> done = 0;
    on_gpu.use_stream(gpu.stream());
    for (int i = 0; i < calls; ++i) {
        on_gpu.all_reduce(values.data(), values.size(), Op::max).wait_in(gpu.stream());
        expect(i - done <= most_ahead, "the host is too far ahead");
        gpu.run([&] {
            for (auto& value : values)
                ++value;
            ++done;
        });
    }
    {
        const auto other = *on_gpu.split(0);
        other.use_stream(gpu.stream());
        other.all_reduce(values.data(), values.size(), Op::max).wait_in(gpu.stream());
    }
    expect(done == calls, "a group has not waited for a call that was left to it");
    gpu.drain();
    expect(values == Values(100, static_cast<float>(on_gpu.size() - 1 + calls)), "the values");
}

/// Calls that no thread waits for fail, and the stream goes on; a later call throws the error. The
/// work between them takes so long that the group's thread has nothing to do for a while.
void lost_in_stream(const ProcessGroup& on_gpu, const ProcessGroup&) {
    constexpr int calls = 20;
    constexpr int last_of_the_lost = 17;
    const bool is_lost = on_gpu.rank() == on_gpu.size() - 1;
    Values values(100);
    const Gpu gpu(on_gpu.device());
    on_gpu.use_stream(gpu.stream());
    for (int i = 0; i < (is_lost ? last_of_the_lost : calls); ++i) {
        gpu.work_for(120ms);
        on_gpu.all_reduce(values.data(), values.size()).wait_in(gpu.stream());
    }
    say("ready");
    while (is_lost)
        ::pause();
    gpu.drain();
    on_gpu.barrier().wait();
}

/// A message is waited for by the host, and a stream that is being captured is refused.
void wait_in_refused(const ProcessGroup& on_gpu, const ProcessGroup&) {
    const Gpu gpu(on_gpu.device());
    Values values(100, static_cast<float>(on_gpu.rank()));
    (on_gpu.rank() == 0 ? on_gpu.send(values.data(), values.size(), 1)
                        : on_gpu.recv(values.data(), values.size(), 0))
        .wait_in(gpu.stream());
    expect(values == Values(100, 0), "the message");
    std::fill(values.begin(), values.end(), static_cast<float>(on_gpu.rank() + 1));
    auto work = on_gpu.all_reduce(values.data(), values.size());
    gpu.capture([&] {
        try {
            work.wait_in(gpu.stream());
            expect(false, "a captured stream is refused");
        } catch (const UsageError& error) {
            say(error.what());
        }
    });
    expect(values == Values(100, 3), "the host has waited");
    on_gpu.barrier().wait();
}

/// Memory is kept until the device no longer uses it.
void given_back_in_use(const ProcessGroup& on_gpu, const ProcessGroup&) {
    const Gpu gpu(on_gpu.device());
    std::atomic<bool> is_over = false;
    {
        const auto memory = on_gpu.allocate(1000);
        gpu.work_for(100ms);
        gpu.run([&] {
            ::memset(memory.data(), 1, 1000);
            is_over = true;
        });
    }
    expect(is_over, "the device's work is over");
}

/// Launches several calls before it waits for any of them.
void in_flight(const ProcessGroup& on_gpu, const ProcessGroup&) {
    constexpr std::size_t count = 100;
    const auto memory = on_gpu.allocate(3 * count * sizeof(float));
    auto* values = static_cast<float*>(memory.data());
    come_or_pause(on_gpu);
    std::vector<Work> works;
    for (std::size_t i = 0; i < 3; ++i)
        works.push_back(on_gpu.all_reduce(values + i * count, count));
    say("ready");
    for (const std::size_t i : {2U, 0U}) {
        try {
            works[i].wait();
            expect(false, "a peer is lost");
        } catch (const PeerLost&) {
        }
    }
    works[1].wait();
}

/// A call after other work in the stream does not begin until that work is done.
void lost_behind_own_work(const ProcessGroup& on_gpu, const ProcessGroup&) {
    Values values(200);
    come_or_pause(on_gpu);
    const Gpu gpu(on_gpu.device());
    std::atomic<bool> is_over = false;
    gpu.work_for(2s);
    gpu.run([&] { is_over = true; });
    on_gpu.use_stream(gpu.stream());
    auto first = on_gpu.all_reduce(values.data(), 100);
    auto second = on_gpu.all_reduce(values.data() + 100, 100);
    say("ready");
    for (auto* work : {&first, &second}) {
        try {
            work->wait();
            expect(false, "a peer is lost");
        } catch (const PeerLost&) {
            expect(is_over, "the call cannot begin any more");
        }
    }
}

}  // namespace

GpuScenarios gpu_calls() {
    return {
        {"gpu_after_stream", after_stream},
        {"gpu_before_later_work", before_later_work},
        {"gpu_float8_of_old_nccl", float8_of_old_nccl},
        {"gpu_given_back_in_use", given_back_in_use},
        {"gpu_in_flight", in_flight},
        {"gpu_lost_behind_own_work", lost_behind_own_work},
        {"gpu_lost_in_stream", lost_in_stream},
        {"gpu_wait_in", wait_in},
        {"gpu_wait_in_many", wait_in_many},
        {"gpu_wait_in_refused", wait_in_refused},
    };
}

}  // namespace ddprun::tests
