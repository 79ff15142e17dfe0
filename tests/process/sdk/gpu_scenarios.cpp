// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/gpu_scenarios.hpp"

#include "ddprun/error.hpp"
#include "ddprun/metrics.hpp"
#include "ddprun/reducer.hpp"
#include "tests/process/sdk/gpu_trainee.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

namespace ddprun::tests {

namespace {

using namespace std::chrono_literals;
/// The text of the UsageError that `call` throws.
template <class Call>
std::string misuse(const Call& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "allowed";
}

void steps(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    pair.trainee.model().verify_parameters();
    pair.expect_same("after broadcast_parameters");
    for (int i = 0; i < 20; ++i) {
        pair.trainee.step(1 + i % 3);  // the stream is late: nothing may be reduced earlier
        pair.expected.step();
        if (i % 7 == 0) pair.expect_same("of step " + std::to_string(i));
    }
    pair.expect_same("at the end");
    expect(*pair.trainee.model().commit_word() == 1, "the commit word");
    expect(pair.expected.model().commit_word() == nullptr, "a commit word on the CPU");
    pair.trainee.model().verify_parameters();
}

/// A program that does not use streams, with its own memory.
void default_stream(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    const Gpu gpu(on_gpu.device(), Gpu::Stream::legacy);
    std::size_t count = 0;
    for (const auto& spec : specs())
        count += spec.count;
    const auto parameters = on_gpu.allocate(count * sizeof(float));
    const auto gradients = on_gpu.allocate(count * sizeof(float));
    auto* const first = static_cast<float*>(parameters.data());
    const auto placement = flat_placement(specs(), first, static_cast<float*>(gradients.data()));
    Trainee trainee(on_gpu, &gpu, small_buckets(), placement);
    expect(trainee.model().param(0) == first, "parameters are where they were placed");
    Trainee expected(on_cpu, nullptr, small_buckets());
    for (int i = 0; i < 10; ++i) {
        trainee.step(1 + i % 3);
        expected.step();
    }
    expect(trainee.parameters() == expected.parameters(), "parameters of the default stream");
}

void steps_with(
    const ProcessGroup& on_gpu, const ProcessGroup& on_cpu, const Reducer::Options& options) {
    Pair pair(on_gpu, on_cpu, options);
    for (int i = 0; i < 6; ++i) {
        pair.trainee.step();
        pair.expected.step();
    }
    pair.expect_same("at the end");
}

void compressed(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    for (const auto& compress : {compress_to_bfloat16, compress_to_float16}) {
        // A hook is for one reducer.
        auto options = small_buckets();
        options.hook = compress();
        auto cpu_options = small_buckets();
        cpu_options.hook = compress();
        Gpu gpu(on_gpu.device());
        on_gpu.use_stream(gpu.stream());
        Trainee trainee(on_gpu, &gpu, options);
        Trainee expected(on_cpu, nullptr, cpu_options);
        for (int i = 0; i < 6; ++i) {
            trainee.step();
            expected.step();
        }
        expect(trainee.parameters() == expected.parameters(), "compressed");
    }
}

void options(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    auto one = small_buckets();
    one.reorder = true;
    steps_with(on_gpu, on_cpu, one);
    auto other = small_buckets();
    other.find_unused = true;
    other.check_order_every = 2;
    other.uneven_inputs = true;
    steps_with(on_gpu, on_cpu, other);
    auto hooked = small_buckets();
    hooked.hook = [](const ProcessGroup& group, const GradientBucket& bucket) -> FinishBucket {
        auto work =
            std::make_shared<Work>(group.all_reduce(bucket.data, bucket.count, Op::average));
        return [work] { work->wait(); };
    };
    steps_with(on_gpu, on_cpu, hooked);
}

void joined(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    auto options = small_buckets();
    options.uneven_inputs = true;
    Pair pair(on_gpu, on_cpu, options);
    std::vector<int> last;
    for (auto* one : {&pair.trainee, &pair.expected}) {
        for (int i = 0; i < 3 + 2 * on_gpu.rank(); ++i)
            one->step();
        last.push_back(one->model().join());
    }
    expect(last[0] == last[1] && last[0] == on_gpu.size() - 1, "the rank that was active last");
    expect(pair.trainee.parameters() == pair.expected.parameters(), "after join");
}

void accumulated(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    for (int i = 0; i < 3; ++i)
        for (auto* one : {&pair.trainee, &pair.expected}) {
            one->model().zero_gradients();
            {
                const auto guard = one->model().no_sync();
                one->backward();
                one->model().finish();
            }
            one->backward();
            one->model().step([one] { one->optimize(); });
        }
    pair.expect_same("with no_sync");
}

void clipped(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    for (int i = 0; i < 8; ++i) {
        std::vector<float> norms;
        const float most = i < 4 ? 0.5F : 1e6F;
        for (auto* one : {&pair.trainee, &pair.expected}) {
            one->model().zero_gradients();
            one->backward();
            one->model().finish();
            const auto* norm = one->model().enqueue_clip(most);
            one->model().synchronize();
            norms.push_back(*norm);
            if (i % 2 == 0) norms.push_back(one->model().clip_gradients(most / 2));
            one->optimize();
        }
        const auto half = norms.size() / 2;
        for (std::size_t k = 0; k < half; ++k)
            expect(norms[k] == norms[k + half], "norm " + std::to_string(norms[k]));
        expect(norms[0] > 1, "a norm that is worth clipping");
    }
    expect(pair.trainee.parameters() == pair.expected.parameters(), "clipped parameters");
}

void captured(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    pair.trainee.step();  // one step without capture, as in real programs
    pair.expected.step();
    const auto two_steps = [&] {
        pair.trainee.step();
        pair.trainee.step();
    };
    // Captures while the watchdog checks the step before.
    for (const int mode : {Gpu::relaxed, Gpu::global}) {
        void* const graph = pair.gpu.capture(two_steps, mode);
        for (int i = 0; i < 15; ++i) {
            pair.trainee.model().replay([&] { pair.gpu.launch(graph); });
            pair.expected.step();
            pair.expected.step();
        }
    }
    pair.expect_same("after replays");
    pair.trainee.step();
    pair.expected.step();
    pair.expect_same("after one step without the graph");
    expect(pair.trainee.model().committed_steps() == 62, "steps of graphs count");
}

/// A peer that is done may end while this rank's GPU still has other work, for longer than it takes
/// to notice the peer's end.
void peer_ends(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    auto& model = pair.trainee.model();
    pair.trainee.step();
    model.zero_gradients();
    pair.trainee.backward();
    model.step([&] {
        if (on_gpu.rank() == 0) pair.gpu.work_for(1500ms);
        pair.trainee.optimize();
    });
    model.synchronize();
    expect(model.committed_steps() == 2, "both steps");
    ::_exit(0);  // finalize would wait for the others
}

void captured_compressed(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    auto options = small_buckets();
    options.hook = compress_to_bfloat16();
    auto cpu_options = small_buckets();
    cpu_options.hook = compress_to_bfloat16();
    Gpu gpu(on_gpu.device());
    on_gpu.use_stream(gpu.stream());
    Trainee trainee(on_gpu, &gpu, options);
    Trainee expected(on_cpu, nullptr, cpu_options);
    const auto clipped_step = [](Trainee& one) {
        one.model().zero_gradients();
        one.backward();
        one.model().finish();
        one.model().enqueue_clip(0.5F);
        one.optimize();
    };
    void* const graph = gpu.capture([&] { clipped_step(trainee); });
    for (int i = 0; i < 5; ++i) {
        trainee.model().replay([&] { gpu.launch(graph); });
        clipped_step(expected);
    }
    expect(trainee.parameters() == expected.parameters(), "compressed and clipped replays");
}

/// Calls that a capture refuses, each in a new capture, since the refused step is half captured.
void refused(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    auto& model = pair.trainee.model();
    pair.gpu.capture([&] {
        expect(
            misuse([&] { model.clip_gradients(1); }) ==
                "clip_gradients cannot be captured into a CUDA graph",
            "clip_gradients");
        for (const auto& call : std::vector<std::function<void()>>{
                 [&] { model.verify_parameters(); },
                 [&] { model.broadcast_parameters(); },
                 [&] { model.synchronize(); },
                 [&] { model.replay([] {}); }})
            expect(
                misuse(call).find("cannot be captured into a CUDA graph") != std::string::npos,
                misuse(call));
    });
    const auto memory = on_gpu.allocate(sizeof(float));
    auto* const value = static_cast<float*>(memory.data());
    pair.gpu.capture([&] {
        const auto said = misuse([&] { on_gpu.all_reduce(value, 1).wait(); });
        expect(said.find("all_reduce") != std::string::npos, said);
        expect(said.find("cannot be captured into a CUDA graph") != std::string::npos, said);
    });
    on_gpu.all_reduce(value, 1).wait();
    const auto refuse = [&](Reducer::Options options, const std::string& name) {
        Trainee trainee(on_gpu, &pair.gpu, options);
        pair.gpu.capture([&] {
            expect(
                misuse([&] { trainee.model().mark_ready(0); }) ==
                    name + " cannot be captured into a CUDA graph",
                name);
        });
        trainee.step();
    };
    auto options = small_buckets();
    options.find_unused = true;
    refuse(options, "find_unused");
    options = small_buckets();
    options.uneven_inputs = true;
    refuse(options, "uneven_inputs");
    options = small_buckets();
    options.check_order_every = 3;
    refuse(options, "check_order_every");
    options = small_buckets();
    options.reorder = true;
    refuse(options, "the step in which `reorder` moves the gradients");
    expect(
        misuse([&] { pair.expected.model().replay([] {}); }) == "replay needs a group on GPUs",
        "replay on a CPU");
}

/// The host is never more than four steps ahead of the device.
void ahead(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    std::atomic<int> done = 0;
    void* const graph = pair.gpu.capture([&] {
        pair.trainee.step(50);
        pair.gpu.run([&] { ++done; });
    });
    int most = 0;
    for (int i = 0; i < 30; ++i) {
        if (i % 2 == 0) {
            pair.trainee.model().replay([&] { pair.gpu.launch(graph); });
        } else {
            pair.gpu.run([&] { ++done; });
            pair.trainee.step(50);
        }
        most = std::max(most, i + 1 - done);
    }
    pair.trainee.model().synchronize();
    expect(done == 30, "all steps done");
    expect(most <= 5, "steps ahead: " + std::to_string(most));
    // A program with its own update does not call `step`.
    most = 0;
    for (int i = 30; i < 60; ++i) {
        pair.gpu.run([&] { ++done; });
        pair.trainee.model().zero_gradients();
        pair.trainee.backward(50);
        pair.trainee.model().finish();
        most = std::max(most, i + 1 - done);
    }
    pair.trainee.model().synchronize();
    expect(done == 60, "all steps without `step` done");
    expect(most <= 5, "steps ahead without `step`: " + std::to_string(most));
}

void metrics(const ProcessGroup& on_gpu, const ProcessGroup&) {
    Metrics sums(on_gpu, 3);
    for (int round = 1; round < 4; ++round) {
        sums.add(0, 1);
        sums.add(2, round * (on_gpu.rank() + 0.5));
        const auto all = sums.reduce();
        const double ranks = on_gpu.size();
        expect(all == std::vector<double>{ranks, 0, round * ranks * ranks / 2}, "sums");
    }
    expect(Metrics(on_gpu, 0).reduce().empty(), "no sums");
}

/// The error names the rank that differs.
void different_parameters(const ProcessGroup& on_gpu, const ProcessGroup& on_cpu) {
    Pair pair(on_gpu, on_cpu, small_buckets());
    if (on_gpu.rank() == 1) pair.trainee.run([&] { pair.trainee.model().param(1)[999] += 1; });
    pair.trainee.model().verify_parameters();
}

void different_models(const ProcessGroup& on_gpu, const ProcessGroup&) {
    auto all = specs();
    if (on_gpu.rank() == 1) all[2].name = "another";
    const Reducer model(on_gpu, all);
}

/// The graph is never destroyed, and the group only at the end of the program.
void graph_outlives_group(const ProcessGroup& on_gpu, const ProcessGroup&) {
    static const auto* const gpu = new Gpu(on_gpu.device());
    on_gpu.use_stream(gpu->stream());
    Trainee trainee(on_gpu, gpu, small_buckets());
    trainee.step();
    void* const graph = gpu->capture([&] { trainee.step(); });
    trainee.model().replay([&] { gpu->launch(graph); });
    trainee.model().synchronize();
    expect(trainee.model().committed_steps() == 2, "both steps");
}

}  // namespace

GpuScenarios gpu_scenarios() {
    return {
        {"gpu_steps", steps},
        {"gpu_default_stream", default_stream},
        {"gpu_compressed", compressed},
        {"gpu_options", options},
        {"gpu_joined", joined},
        {"gpu_accumulated", accumulated},
        {"gpu_clipped", clipped},
        {"gpu_captured", captured},
        {"gpu_captured_compressed", captured_compressed},
        {"gpu_peer_ends", peer_ends},
        {"gpu_refused", refused},
        {"gpu_ahead", ahead},
        {"gpu_metrics", metrics},
        {"gpu_different_parameters", different_parameters},
        {"gpu_different_models", different_models},
        {"gpu_graph_outlives_group", graph_outlives_group},
    };
}

}  // namespace ddprun::tests
