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
    };
}

}  // namespace ddprun::tests
