// SPDX-License-Identifier: Apache-2.0
#include "run_state.hpp"

#include "ddprun/error.hpp"

namespace mnist {
namespace {

constexpr const char* momentum_prefix = "momentum/";

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

ddprun::Checkpoint to_checkpoint(
    const RunState& state, const Numbers& parameters, const Numbers& momentum) {
    ddprun::Checkpoint checkpoint;
    checkpoint.step = static_cast<std::uint64_t>(state.step);
    add(checkpoint, parameter_prefix, parameters);
    add(checkpoint, momentum_prefix, momentum);
    checkpoint.add("seed", state.seed);
    checkpoint.add("step", state.step);
    checkpoint.add("epoch", state.epoch);
    checkpoint.add("consumed", state.consumed);
    checkpoint.add("loss", state.loss);
    checkpoint.add("correct", state.correct);
    checkpoint.add("samples", state.samples);
    return checkpoint;
}

RunState from_checkpoint(
    const ddprun::Checkpoint& checkpoint, const Numbers& parameters, const Numbers& momentum) {
    RunState state;
    state.seed = checkpoint.integer("seed");
    state.step = checkpoint.integer("step");
    state.epoch = checkpoint.integer("epoch");
    state.consumed = checkpoint.integer("consumed");
    state.loss = checkpoint.real("loss");
    state.correct = checkpoint.real("correct");
    state.samples = checkpoint.real("samples");
    if (state.step < 0 || state.epoch < 0 || state.consumed < 0)
        throw ddprun::Error("the checkpoint says that the run is before its beginning");
    take(checkpoint, parameter_prefix, parameters);
    take(checkpoint, momentum_prefix, momentum);
    return state;
}

}  // namespace mnist
