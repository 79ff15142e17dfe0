// SPDX-License-Identifier: Apache-2.0
// A training that keeps count of the samples it used, in its checkpoints: whatever happens in
// between, the history of the final state has each sample once per epoch. Argument: the folder.
#include "ddprun/checkpoint.hpp"
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/process_group.hpp"
#include "ddprun/progress.hpp"
#include "ddprun/record.hpp"
#include "ddprun/reducer.hpp"
#include "ddprun/shared_checkpoint.hpp"
#include "ddprun/world.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t samples = 120;
constexpr std::uint64_t epochs = 2;
constexpr std::uint64_t steps_between_saves = 7;

struct Training {
    ddprun::World world;
    ddprun::ProcessGroup group;
    ddprun::CheckpointFolder folder;
    ddprun::Reducer model;
    ddprun::DistributedSampler sampler;
    std::uint64_t step = 0;
    std::vector<float> used = std::vector<float>(samples);
    double loss = 0;

    Training(const ddprun::World& in, const ddprun::ProcessGroup& with, const char* path)
        : world(in),
          group(with),
          folder(path),
          model(group, {{"w", 1}, {"b", 1}}),
          sampler(samples, world.world_size, world.rank) {}

    void load(const ddprun::Checkpoint& from) {
        step = from.step;
        from.copy_to("w", model.param(0), 1);
        from.copy_to("b", model.param(1), 1);
        from.copy_to("used", used.data(), used.size());
        loss = from.real("loss");
        ddprun::DistributedSampler::State state;
        state.epoch = static_cast<std::uint64_t>(from.integer("epoch"));
        state.consumed = static_cast<std::uint64_t>(from.integer("consumed"));
        sampler.resume(state);
    }

    void save(const ddprun::CheckpointRound& round) const {
        ddprun::Checkpoint to;
        to.step = step;
        to.add("w", model.param(0), 1);
        to.add("b", model.param(1), 1);
        to.add("used", used.data(), used.size());
        to.add("loss", loss);
        to.add("epoch", static_cast<std::int64_t>(sampler.state().epoch));
        to.add("consumed", static_cast<std::int64_t>(sampler.state().consumed));
        round.write_to(to);
        folder.save(to);
    }

    void train_on(std::uint64_t sample) {
        const float x = static_cast<float>(sample) / samples;
        const float error = *model.param(0) * x + *model.param(1) - (2 * x + 1);
        *model.grad(1) = error;
        model.mark_ready(1);
        *model.grad(0) = error * x;
        model.mark_ready(0);
        model.step([&] {
            for (std::size_t i = 0; i < 2; ++i)
                *model.param(i) -= 0.3F * *model.grad(i);
        });
        // The samples that all ranks used in this step, and the result.
        std::vector<float> facts(samples + 1);
        facts[sample] = 1;
        facts[samples] = error * error;
        group.all_reduce(facts.data(), facts.size()).wait();
        for (std::size_t i = 0; i < samples; ++i)
            used[i] += facts[i];
        loss = 0.9 * loss + 0.1 * static_cast<double>(facts[samples]);
        ddprun::report_progress(++step);
        sampler.advance(static_cast<std::uint64_t>(world.world_size));
    }

    void run(const ddprun::CheckpointRound& round) {
        for (auto epoch = sampler.state().epoch; epoch < epochs; ++epoch) {
            if (epoch != sampler.state().epoch) sampler.set_epoch(epoch);
            for (const auto sample : sampler.indices()) {
                train_on(sample);
                if (step % steps_between_saves == 0 && world.rank == 0) save(round);
                // Takes as long as a step of a real model, so that it can be killed during a step.
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
    }
};

}  // namespace

int main(int count, char** words) {
    return ddprun::record([&] {
        if (count != 2) throw ddprun::UsageError("usage: counted_training FOLDER");
        const auto world = ddprun::World::from_environment();
        std::fprintf(stderr, "rank %d pid %d\n", world.rank, static_cast<int>(::getpid()));
        Training training(world, ddprun::ProcessGroup::create(world), words[1]);
        const auto found = ddprun::load_newest(training.folder, training.group);
        if (found) training.load(found->checkpoint);
        training.run(ddprun::CheckpointRound(world, found ? &found->checkpoint : nullptr));
        if (world.rank == 0) {
            const auto [least, most] =
                std::minmax_element(training.used.begin(), training.used.end());
            std::printf(
                "steps %d, each sample %g to %g times, loss %a, model %a %a\n",
                static_cast<int>(training.step),
                static_cast<double>(*least),
                static_cast<double>(*most),
                training.loss,
                static_cast<double>(*training.model.param(0)),
                static_cast<double>(*training.model.param(1)));
        }
        return 0;
    });
}
