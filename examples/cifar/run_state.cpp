// SPDX-License-Identifier: Apache-2.0
#include "run_state.hpp"

#include "ddprun/error.hpp"

#include <string>
#include <vector>

namespace cifar {
namespace {

// The first prefix marks the values that compare_checkpoints compares.
constexpr const char* parameter_prefix = "parameters/";
constexpr const char* momentum_prefix = "momentum/";
constexpr const char* running_name = "running averages";

std::vector<float> numbers_in(
    const ddprun::Checkpoint& checkpoint, const std::string& name, std::size_t count) {
    std::vector<float> numbers(count);
    checkpoint.copy_to(name, numbers.data(), count);
    return numbers;
}

}  // namespace

ddprun::Checkpoint to_checkpoint(
    const RunState& state, const Architecture& architecture, const GpuNetwork& network) {
    ddprun::Checkpoint checkpoint;
    checkpoint.step = static_cast<std::uint64_t>(state.step);
    for (std::size_t i = 0; i < architecture.parameters.size(); ++i) {
        const auto& parameter = architecture.parameters[i];
        checkpoint.add(parameter_prefix + parameter.name, parameter.shape, network.parameter(i));
        checkpoint.add(momentum_prefix + parameter.name, parameter.shape, network.velocity(i));
    }
    checkpoint.add(running_name, {network.running_count()}, network.running_averages());
    checkpoint.add("seed", state.seed);
    checkpoint.add("width", state.width);
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
    state.width = checkpoint.integer("width");
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

void take_numbers(
    const ddprun::Checkpoint& checkpoint, const Architecture& architecture, GpuNetwork& network) {
    for (std::size_t i = 0; i < architecture.parameters.size(); ++i) {
        const auto& parameter = architecture.parameters[i];
        const auto count = parameter.count();
        network.set_parameter(i, numbers_in(checkpoint, parameter_prefix + parameter.name, count));
        network.set_velocity(i, numbers_in(checkpoint, momentum_prefix + parameter.name, count));
    }
    network.set_running_averages(numbers_in(checkpoint, running_name, network.running_count()));
}

}  // namespace cifar
