// SPDX-License-Identifier: Apache-2.0
// A parameter server: rank 0 has the parameters, the others fetch them, compute a gradient and send
// it back. No worker waits for another, so a gradient may belong to older parameters than those to
// which it is applied: it is stale by the number of updates in between.
//   ddprun --standalone --nproc-per-node=4 parameter_server
#include "ddprun/error.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/record.hpp"
#include "ddprun/world.hpp"

#include <array>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t weights = 16;
constexpr std::size_t batch = 8;
constexpr int updates_per_worker = 200;
constexpr float rate = 0.05F;

/// In a message with parameters: their age in updates. In one with a gradient: the age of the
/// parameters that it belongs to.
struct Message {
    std::array<float, weights> values{};
    float age = 0;

    /// As floats.
    float* data() { return reinterpret_cast<float*>(this); }
    static constexpr std::size_t count = weights + 1;
};
static_assert(sizeof(Message) == Message::count * sizeof(float), "sent as floats");

float number_at(std::size_t place) {
    return static_cast<float>((place * 2654435761U + 12345) % 2001) / 1000 - 1;
}

/// The error of the model's output for one sample.
float error_at(const std::array<float, weights>& model, std::size_t sample) {
    float error = 0;
    for (std::size_t i = 0; i < weights; ++i)
        error += (model[i] - number_at(i)) * number_at(1000 + sample * weights + i);
    return error;
}

float loss_of(const std::array<float, weights>& model) {
    constexpr std::size_t samples = 100;
    float sum = 0;
    for (std::size_t sample = 0; sample < samples; ++sample)
        sum += error_at(model, sample) * error_at(model, sample) / samples;
    return sum;
}

/// The server's end of the channel to one worker.
struct Channel {
    ddprun::ProcessGroup group;
    Message parameters{};
    Message gradient{};
    std::optional<ddprun::Work> sent{};
    std::optional<ddprun::Work> received{};
    int updates = 0;

    void give(const Message& model) {
        sent.reset();  // waits until the buffer is free again
        parameters = model;
        sent.emplace(group.send(parameters.data(), Message::count, 1));
        received.emplace(group.recv(gradient.data(), Message::count, 1));
    }
};

void serve(std::vector<Channel> channels) {
    Message model;
    for (auto& channel : channels)
        channel.give(model);
    const int all_updates = updates_per_worker * static_cast<int>(channels.size());
    float staleness = 0;
    for (int updates = 0; updates < all_updates; std::this_thread::yield())
        for (auto& channel : channels) {
            if (!channel.received || !channel.received->is_done()) continue;
            channel.received->wait();  // throws the error that ended it
            channel.received.reset();
            for (std::size_t i = 0; i < weights; ++i)
                model.values[i] -= rate * channel.gradient.values[i];
            staleness += model.age - channel.gradient.age;
            model.age = static_cast<float>(++updates);
            if (updates % (all_updates / 10) == 0)
                std::printf("step %d loss %.6f\n", updates, loss_of(model.values));
            if (++channel.updates < updates_per_worker) channel.give(model);
        }
    std::printf(
        "gradients were stale by %.1f updates\n", staleness / static_cast<float>(all_updates));
}

void work(const ddprun::ProcessGroup& server, int rank) {
    Message message;
    for (int step = 0; step < updates_per_worker; ++step) {
        server.recv(message.data(), Message::count, 0).wait();
        const auto model = message.values;
        message.values = {};
        for (std::size_t s = 0; s < batch; ++s) {
            const auto sample = static_cast<std::size_t>(step * 100 + rank) * batch + s;
            const float error = error_at(model, sample);
            for (std::size_t i = 0; i < weights; ++i)
                message.values[i] += 2 * error * number_at(1000 + sample * weights + i) / batch;
        }
        server.send(message.data(), Message::count, 0).wait();
    }
}

}  // namespace

int main() {
    return ddprun::record([] {
        const auto world = ddprun::World::from_environment();
        if (world.world_size < 2) throw ddprun::UsageError("a server and at least one worker");
        const auto group = ddprun::ProcessGroup::create(world);
        // One group per worker: receives within a group are performed in order, but the server
        // takes gradients as they arrive.
        std::vector<Channel> channels;
        for (int worker = 1; worker < world.world_size; ++worker)
            if (world.rank == 0 || world.rank == worker)
                channels.push_back({group.sub_group({0, worker})});
        if (world.rank == 0)
            serve(std::move(channels));
        else
            work(channels.front().group, world.rank);
        return 0;
    });
}
