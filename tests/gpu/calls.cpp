// SPDX-License-Identifier: Apache-2.0
// Every call of a group on the device, and a Reducer's steps, compared with the same on the host.
#include "ddprun/reducer.hpp"
#include "tests/gpu/by_hand.hpp"
#include "tests/gpu/gpu.hpp"
#include "tests/gpu/parts.hpp"
#include "tests/process/sdk/every_call.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace gpu_check {

using ddprun::ProcessGroup;
using ddprun::Reducer;
using ddprun::Store;
using ddprun::World;

namespace {

ddprun::tests::Copies copies_of(const Gpu& gpu) {
    return {
        [&gpu](void* to, const void* from, std::size_t bytes) {
            if (bytes > 0) gpu.upload(to, from, bytes);
        },
        [&gpu](void* to, const void* from, std::size_t bytes) {
            if (bytes > 0) gpu.download(to, from, bytes);
        }};
}

/// A rank's own value is fill_byte(rank) in each byte.
unsigned char fill_byte(int rank) {
    return static_cast<unsigned char>(rank + 1);
}

/// Every value is the sum of all ranks' own.
void expect_sum(
    const ProcessGroup& group,
    const Gpu& gpu,
    const std::int32_t* data,
    std::size_t count,
    const std::string& what) {
    std::vector<std::int32_t> values(count);
    gpu.download(values.data(), data, count * sizeof *data);
    const int ranks = group.size();
    const std::int32_t sum = 0x01010101 * (ranks * (ranks + 1) / 2);
    for (const auto value : values)
        expect(value == sum, what);
}

/// A call begins after the work that is in the group's stream.
void check_order(const ProcessGroup& group, const Gpu& gpu, std::size_t bytes) {
    const auto memory = group.allocate(bytes);
    auto* const data = static_cast<std::int32_t*>(memory.data());
    const auto stream = gpu.new_stream();
    void* const other = gpu.allocate(bytes);
    for (int i = 0; i < 20; ++i)  // so that the stream is late
        gpu.fill(other, 1, bytes, stream);
    gpu.fill(data, fill_byte(group.rank()), bytes, stream);
    group.use_stream(stream);
    const auto count = bytes / sizeof(std::int32_t);
    group.all_reduce(data, count).wait();
    group.use_stream(nullptr);
    expect_sum(group, gpu, data, count, "a call began before the work in its stream was done");
}

/// Work in a stream begins after a call for which only the stream waits.
void check_wait_in(const ProcessGroup& group, const Gpu& gpu, std::size_t bytes) {
    const auto memory = group.allocate(bytes);
    auto* const data = static_cast<std::int32_t*>(memory.data());
    const auto stream = gpu.new_stream();
    const auto count = bytes / sizeof(std::int32_t);
    group.use_stream(stream);
    constexpr int calls = 50;
    for (int i = 0; i < calls; ++i) {
        gpu.fill(data, fill_byte(group.rank()), bytes, stream);
        group.all_reduce(data, count).wait_in(stream);
    }
    gpu.synchronize(stream);
    group.use_stream(nullptr);
    expect_sum(
        group, gpu, data, count, "work in a stream began before the call for which it waits");
}

std::vector<ddprun::ParameterSpec> specs() {
    return {{"a", 5}, {"b", 20'000}, {"c", 1}, {"d", 3'000}};
}

/// Sums and halves of these are exact.
std::vector<float> gradient(std::size_t parameter, std::size_t count, int rank, int step) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = i * 7 + parameter * 5 + static_cast<unsigned>(rank * 3 + step);
        values[i] = static_cast<float>(number % 101) / 64 - 0.7F;
    }
    return values;
}

/// One Reducer, on the device or on the host.
class Model {
public:
    Model(const ProcessGroup& group, const Gpu* gpu, const Reducer::Options& options)
        : gpu_(gpu),
          stream_(gpu ? gpu->new_stream() : nullptr),
          group_(group),
          reducer_(use_stream(group, stream_), specs(), options) {}

    void put_gradients(int step) {
        reducer_.zero_gradients();
        if (gpu_) gpu_->synchronize(stream_);
        for (std::size_t i = 0; i < specs().size(); ++i) {
            const auto values = gradient(i, specs()[i].count, group_.rank(), step);
            copies().there(reducer_.grad(i), values.data(), values.size() * sizeof(float));
        }
    }

    void average() {
        for (std::size_t i = specs().size(); i-- > 0;)
            reducer_.mark_ready(i);
        reducer_.step([] {});
    }

    float clipped_average(float max_norm) {
        for (std::size_t i = specs().size(); i-- > 0;)
            reducer_.mark_ready(i);
        reducer_.finish();
        return reducer_.clip_gradients(max_norm);
    }

    /// Enqueues the work of `average` from a graph.
    void average_by_graph() {
        const auto graph = gpu_->capture(stream_, [&] { average(); });
        reducer_.replay([&] { gpu_->launch(graph, stream_); });
        reducer_.synchronize();
        gpu_->destroy(graph);
    }

    std::vector<float> gradients() {
        reducer_.synchronize();
        std::vector<float> all;
        for (std::size_t i = 0; i < specs().size(); ++i) {
            std::vector<float> values(specs()[i].count);
            copies().back(values.data(), reducer_.grad(i), values.size() * sizeof(float));
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    }

private:
    static ProcessGroup use_stream(const ProcessGroup& group, Gpu::Stream stream) {
        if (stream) group.use_stream(stream);
        return group;
    }

    ddprun::tests::Copies copies() const {
        return gpu_ ? copies_of(*gpu_) : ddprun::tests::host_copies();
    }

    const Gpu* const gpu_;
    const Gpu::Stream stream_;
    const ProcessGroup group_;
    Reducer reducer_;
};

void compare(
    const std::string& what,
    const std::vector<float>& ours,
    const std::vector<float>& expected,
    float slack) {
    for (std::size_t i = 0; i < ours.size(); ++i)
        expect(
            std::abs(ours[i] - expected[i]) <= slack,
            what + ": gradient " + std::to_string(i) + " is " + std::to_string(ours[i]) +
                ", on the host " + std::to_string(expected[i]));
}

struct Way {
    const char* name;
    std::function<ddprun::CommunicationHook()> hook;
    float slack;
};

void check_steps(
    const ProcessGroup& on_gpu, const ProcessGroup& on_cpu, const Gpu& gpu, const Way& way) {
    Reducer::Options options;
    options.first_bucket_bytes = 1000;
    options.bucket_bytes = 50'000;
    auto other = options;
    if (way.hook) {
        options.hook = way.hook();
        other.hook = way.hook();
    }
    Model ours(on_gpu, &gpu, options);
    Model expected(on_cpu, nullptr, other);
    const std::string name = way.name;
    for (int step = 0; step < 3; ++step) {
        for (auto* model : {&ours, &expected}) {
            model->put_gradients(step);
            model->average();
        }
        compare(name, ours.gradients(), expected.gradients(), way.slack);
    }
    std::vector<float> norms;
    for (auto* model : {&ours, &expected}) {
        model->put_gradients(3);
        norms.push_back(model->clipped_average(2.0F));
    }
    expect(std::abs(norms[0] - norms[1]) <= (1e-6F + way.slack) * norms[1], name + ": the norm");
    compare(name + ", clipped", ours.gradients(), expected.gradients(), 1e-6F + way.slack);
    for (int step = 4; step < 6; ++step) {
        ours.put_gradients(step);
        ours.average_by_graph();
        expected.put_gradients(step);
        expected.average();
        compare(name + ", by a graph", ours.gradients(), expected.gradients(), way.slack);
    }
}

}  // namespace

void calls(const World& world, std::size_t most_count) {
    const auto store = Store::connect(world);
    const auto group = nccl_group(world, store);
    const Gpu gpu(device_of(world));
    const auto copies = copies_of(gpu);
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}, most_count}) {
        auto wrong = ddprun::tests::try_every_call(group, count, true, copies);
        if (wrong.empty()) wrong = ddprun::tests::try_messages_there(group, count, copies);
        expect(wrong.empty(), wrong);
    }
    check_order(group, gpu, most_count * sizeof(std::int32_t));
    check_wait_in(group, gpu, most_count * sizeof(std::int32_t));
    if (world.rank == 0) say("most " + std::to_string(most_count));
}

void steps(const World& world) {
    const auto store = Store::connect(world);
    const Gpu gpu(device_of(world));
    const auto on_gpu = nccl_group(world, store);
    ProcessGroup::Options options;
    options.backend = ddprun::Backend::cpu;
    const auto on_cpu = ProcessGroup::create(world, store, options);
    // Sums of 16 bits are rounded in the order of NCCL's rings.
    const Way ways[] = {
        {"uncompressed", nullptr, 0},
        {"bfloat16", ddprun::compress_to_bfloat16, 0.02F},
        {"float16", ddprun::compress_to_float16, 0.002F}};
    for (const auto& way : ways) {
        check_steps(on_gpu, on_cpu, gpu, way);
        if (world.rank == 0) say(std::string{"steps "} + way.name);
    }
}

void sums_by_hand(const World& world, std::size_t count) {
    auto store = Store::connect(world);
    const Gpu gpu(device_of(world));
    auto* const data = static_cast<float*>(gpu.allocate(count * sizeof(float)));
    for (const auto kind : {ByHand::Kind::blocking, ByHand::Kind::non_blocking}) {
        const bool is_blocking = kind == ByHand::Kind::blocking;
        const std::string name = is_blocking ? "blocking" : "non_blocking";
        ByHand hand(world, store, gpu, kind, "sums/" + name);
        std::vector<float> values(count, static_cast<float>(world.rank + 1));
        gpu.upload(data, values.data(), count * sizeof(float));
        hand.all_reduce(data, count);
        hand.wait();
        gpu.download(values.data(), data, count * sizeof(float));
        const auto sum = static_cast<float>(world.world_size * (world.world_size + 1) / 2);
        for (const auto value : values)
            expect(value == sum, name + ": a sum is " + std::to_string(value));
        hand.end();
        if (world.rank == 0) say("by_hand " + name);
    }
}

}  // namespace gpu_check
