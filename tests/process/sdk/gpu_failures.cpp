// SPDX-License-Identifier: Apache-2.0
// Failure scenarios of a rank with a fake GPU.
#include "ddprun/error.hpp"
#include "ddprun/metrics.hpp"
#include "tests/process/sdk/gpu_scenarios.hpp"
#include "tests/process/sdk/gpu_trainee.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

namespace ddprun::tests {

namespace {

using namespace std::chrono_literals;

/// After a failure a rank's parameters are those of its last committed step, without any garbage;
/// the exception has the number of that step.
void check_what_is_left(Trainee& trainee, const ProcessGroup& on_cpu) {
    // Compares with a world of one whose gradients are this world's averages, in the same order of
    // additions.
    const auto committed = trainee.model().committed_steps();
    const auto ranks = on_cpu.size();
    Values expected;
    for (const auto& spec : specs())
        expected.insert(expected.end(), spec.count, static_cast<float>(ranks - 1));
    for (std::uint64_t step = 0; step < committed; ++step) {
        std::size_t at = 0;
        for (std::size_t i = 0; i < specs().size(); ++i)
            for (std::size_t k = 0; k < specs()[i].count; ++k) {
                float sum = 0;
                for (int rank = 0; rank < ranks; ++rank)
                    sum += gradient(step, i, k, rank);
                expected[at++] -= 0.1F * (sum / static_cast<float>(ranks));
            }
    }
    Values left;
    for (std::size_t i = 0; i < specs().size(); ++i)
        left.insert(
            left.end(), trainee.model().param(i), trainee.model().param(i) + specs()[i].count);
    expect(left == expected, "parameters of step " + std::to_string(committed));
    say("committed " + std::to_string(committed));
}

/// Checks that `body` fails, and that later calls fail too.
template <class Body>
void expect_failure(Trainee& trainee, const ProcessGroup& on_cpu, const Body& body) {
    try {
        body();
    } catch (const Error&) {
        check_what_is_left(trainee, on_cpu);
        expect(
            [&] {
                try {
                    trainee.model().replay([] { throw std::runtime_error("launched"); });
                } catch (const Error&) {
                    return true;
                }
                return false;
            }(),
            "every later call fails the same way");
        throw;
    }
    expect(false, "no failure");
}

template <class Once>
void until_it_fails(Trainee& trainee, const ProcessGroup& on_cpu, const Once& once) {
    say("ready");
    expect_failure(trainee, on_cpu, [&] {
        for (;;)
            once();
    });
}

void endless_steps(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    for (int i = 0; i < 3; ++i)
        pair.trainee.step();
    until_it_fails(pair.trainee, on_cpu, [&] { pair.trainee.step(); });
}

void endless_replays(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    void* const graph = pair.gpu.capture([&] {
        pair.trainee.step();
        pair.trainee.step();
    });
    const auto once = [&] { pair.trainee.model().replay([&] { pair.gpu.launch(graph); }); };
    once();
    until_it_fails(pair.trainee, on_cpu, once);
}

void three_steps(Trainee& trainee) {
    for (int i = 0; i < 3; ++i)
        trainee.step();
    trainee.model().synchronize();
}

/// The last rank stops in mid step.
void stop_if_last(Trainee& trainee) {
    const auto& group = trainee.model().group();
    if (group.rank() != group.size() - 1) return;
    trainee.model().zero_gradients();
    trainee.run([] {});
    trainee.model().mark_ready(3);
    say("ready");
    for (;;)
        ::pause();
}

/// The last rank stops in a step; the others have enqueued theirs and wait for the GPU.
void last_one_stops(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    three_steps(pair.trainee);
    stop_if_last(pair.trainee);
    until_it_fails(pair.trainee, on_cpu, [&] {
        pair.trainee.step();
        pair.trainee.model().synchronize();
    });
}

/// As above, but the others have enqueued other work after the buckets, which ends when they have
/// detected the failure.
void own_work_goes_on(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    std::atomic<bool> is_done = false;
    Pair pair(on_gpu, on_cpu, small_buckets());
    auto& model = pair.trainee.model();
    three_steps(pair.trainee);
    stop_if_last(pair.trainee);
    expect_failure(pair.trainee, on_cpu, [&] {
        model.zero_gradients();
        pair.trainee.backward();
        model.step([&] {
            pair.gpu.work_until(is_done);
            pair.trainee.optimize();
        });
        say("ready");
        try {
            model.synchronize();
        } catch (const Error&) {
            is_done = true;
            pair.gpu.drain();
            throw;
        }
    });
}

/// As above, but the others are in a launch that the driver blocks until the device has progressed.
void lost_in_launch(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    three_steps(pair.trainee);
    void* const graph = pair.gpu.capture([&] { pair.trainee.step(); });
    if (on_gpu.rank() == on_gpu.size() - 1) {
        say("launching");
        for (;;)
            ::pause();
    }
    expect_failure(pair.trainee, on_cpu, [&] {
        pair.trainee.step();
        pair.trainee.model().replay([&] {
            say("launching");
            pair.gpu.drain();
            pair.gpu.launch(graph);
        });
    });
}

/// As above, but the others wait for the GPU without the SDK, whose watchdog aborts meanwhile; then
/// they make a call that is not part of a step.
template <class Enqueue, class Call>
void call_after_watchdog(
    Pair& pair, const ProcessGroup& on_cpu, const Enqueue& enqueue, Call call) {
    stop_if_last(pair.trainee);
    say("ready");
    expect_failure(pair.trainee, on_cpu, [&] {
        enqueue();
        pair.gpu.drain();
        call();
    });
}

void metrics_after_watchdog(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    three_steps(pair.trainee);
    call_after_watchdog(
        pair, on_cpu, [&] { pair.trainee.step(); }, [&] { Metrics(on_gpu, 3).reduce(); });
}

void barrier_after_watchdog(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    three_steps(pair.trainee);
    void* const graph = pair.gpu.capture([&] { pair.trainee.step(); });
    call_after_watchdog(
        pair,
        on_cpu,
        [&] { pair.trainee.model().replay([&] { pair.gpu.launch(graph); }); },
        [&] { on_gpu.barrier().wait(); });
}

/// The device fails in the third step, while the host waits for it.
void device_fails(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    auto& model = pair.trainee.model();
    pair.trainee.step();
    pair.trainee.step();
    model.synchronize();
    model.zero_gradients();
    pair.trainee.backward();
    model.step([&] { pair.gpu.work_for(500ms); });
    model.synchronize();
    expect(false, "nothing was said of the device's failure");
}

}  // namespace

GpuScenarios gpu_failures() {
    return {
        {"gpu_endless_steps", endless_steps},
        {"gpu_endless_replays", endless_replays},
        {"gpu_last_one_stops", last_one_stops},
        {"gpu_own_work_goes_on", own_work_goes_on},
        {"gpu_lost_in_launch", lost_in_launch},
        {"gpu_metrics_after_watchdog", metrics_after_watchdog},
        {"gpu_barrier_after_watchdog", barrier_after_watchdog},
        {"gpu_device_fails", device_fails},
    };
}

}  // namespace ddprun::tests
