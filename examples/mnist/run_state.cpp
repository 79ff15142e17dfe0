// SPDX-License-Identifier: Apache-2.0
#include "run_state.hpp"

#include "ddprun/error.hpp"
#include "mlp.hpp"

namespace mnist {
namespace {

constexpr const char* optimizer_key = "optimizer";

void add(ddprun::Checkpoint& checkpoint, const std::string& prefix, const Numbers& numbers) {
    const auto& shapes = Mlp::parameters();
    for (std::size_t i = 0; i < shapes.size(); ++i)
        checkpoint.add(
            prefix + shapes[i].name,
            {shapes[i].rows, shapes[i].columns},
            std::vector<float>(numbers[i], numbers[i] + shapes[i].count()));
}

void take(const ddprun::Checkpoint& checkpoint, const std::string& prefix, const Numbers& numbers) {
    const auto& shapes = Mlp::parameters();
    for (std::size_t i = 0; i < shapes.size(); ++i)
        checkpoint.copy_to(prefix + shapes[i].name, numbers[i], shapes[i].count());
}

}  // namespace

ddprun::Checkpoint to_checkpoint(const RunState& state, const ModelNumbers& numbers) {
    ddprun::Checkpoint checkpoint;
    checkpoint.step = static_cast<std::uint64_t>(state.step);
    checkpoint.texts[optimizer_key] = name_of(state.optimizer);
    add(checkpoint, parameter_prefix, numbers.parameters);
    for (const auto& moment : numbers.moments)
        add(checkpoint, moment.name + "/", moment.values);
    checkpoint.add("seed", state.seed);
    checkpoint.add("step", state.step);
    checkpoint.add("epoch", state.epoch);
    checkpoint.add("consumed", state.consumed);
    checkpoint.add("loss", state.loss);
    checkpoint.add("correct", state.correct);
    checkpoint.add("samples", state.samples);
    return checkpoint;
}

RunState state_in(const ddprun::Checkpoint& checkpoint) {
    RunState state;
    state.seed = checkpoint.integer("seed");
    state.optimizer = checkpoint.text(optimizer_key) == name_of(OptimizerKind::adam)
                          ? OptimizerKind::adam
                          : OptimizerKind::sgd;
    state.step = checkpoint.integer("step");
    state.epoch = checkpoint.integer("epoch");
    state.consumed = checkpoint.integer("consumed");
    state.loss = checkpoint.real("loss");
    state.correct = checkpoint.real("correct");
    state.samples = checkpoint.real("samples");
    if (state.step < 0 || state.epoch < 0 || state.consumed < 0)
        throw ddprun::Error("the checkpoint says that the run is before its beginning");
    return state;
}

void take_numbers(const ddprun::Checkpoint& checkpoint, const ModelNumbers& numbers) {
    take(checkpoint, parameter_prefix, numbers.parameters);
    for (const auto& moment : numbers.moments)
        take(checkpoint, moment.name + "/", moment.values);
}

}  // namespace mnist
