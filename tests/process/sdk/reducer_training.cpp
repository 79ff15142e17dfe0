// SPDX-License-Identifier: Apache-2.0
#include "ddprun/distributed_sampler.hpp"
#include "ddprun/reducer.hpp"
#include "tests/process/sdk/thread_ranks.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

constexpr std::size_t inputs = 8;
constexpr std::size_t hidden = 5;
constexpr std::size_t samples = 240;
constexpr std::size_t global_batch = 24;
constexpr int epochs = 3;

const std::vector<ParameterSpec> network{{"in", inputs* hidden}, {"out", hidden}};

float made_up(std::uint64_t a, std::uint64_t b) {
    return std::sin(static_cast<float>(a * 7 + b * 13 + 1));
}

struct How {
    std::size_t micro_batches = 1;
    float max_norm = 0;  // 0: not clipped
    bool reorder = false;
    bool in_flat_arrays = false;
};

/// Adds this sample's part of the gradient of the mean squared error over `count` samples.
void add_gradient(const Reducer& model, std::uint64_t sample, std::size_t count) {
    std::vector<float> middle(hidden);
    float output = 0;
    for (std::size_t h = 0; h < hidden; ++h) {
        for (std::size_t i = 0; i < inputs; ++i)
            middle[h] += model.param(0)[h * inputs + i] * made_up(sample, i);
        output += model.param(1)[h] * std::tanh(middle[h]);
    }
    const float slope = 2 * (output - made_up(sample, inputs)) / static_cast<float>(count);
    for (std::size_t h = 0; h < hidden; ++h) {
        const float active = std::tanh(middle[h]);
        model.grad(1)[h] += slope * active;
        const float inner = slope * model.param(1)[h] * (1 - active * active);
        for (std::size_t i = 0; i < inputs; ++i)
            model.grad(0)[h * inputs + i] += inner * made_up(sample, i);
    }
}

void backward(Reducer& model, const std::uint64_t* batch, std::size_t count, const How& how) {
    for (std::size_t i = 0; i < count; ++i)
        add_gradient(model, batch[i], count * how.micro_batches);
    model.mark_ready(how.reorder ? 0 : 1);
    model.mark_ready(how.reorder ? 1 : 0);
}

void train_step(Reducer& model, const std::uint64_t* batch, std::size_t count, const How& how) {
    model.zero_gradients();
    const auto micro = count / how.micro_batches;
    for (std::size_t i = 0; i + 1 < how.micro_batches; ++i) {
        const auto guard = model.no_sync();
        backward(model, batch + i * micro, micro, how);
        model.finish();
    }
    backward(model, batch + (how.micro_batches - 1) * micro, micro, how);
    model.step([&] {
        if (how.max_norm > 0) model.clip_gradients(how.max_norm);
        for (std::size_t p = 0; p < network.size(); ++p)
            for (std::size_t i = 0; i < network[p].count; ++i)
                model.param(p)[i] -= 0.1F * model.grad(p)[i];
    });
}

/// The final parameters after training with `ranks` ranks, each with its part of the global batch.
std::vector<float> trained(int ranks, const How& how) {
    std::vector<float> result;
    const auto complaints = on_ranks(ranks, [&](const ProcessGroup& group) {
        Reducer::Options options;
        options.first_bucket_bytes = 1;
        options.reorder = how.reorder;
        std::vector<float> parameters(network[0].count + network[1].count);
        std::vector<float> gradients(parameters.size());
        Placement placement;
        if (how.in_flat_arrays)
            placement = flat_placement(network, parameters.data(), gradients.data());
        Reducer model(group, network, options, placement);
        for (std::size_t p = 0; p < network.size(); ++p)
            for (std::size_t i = 0; i < network[p].count; ++i)
                model.param(p)[i] = group.rank() == 0 ? made_up(p, i) : 0;
        model.broadcast_parameters();

        DistributedSampler sampler(samples, ranks, group.rank());
        const auto own = global_batch / static_cast<std::size_t>(ranks);
        for (int epoch = 0; epoch < epochs; ++epoch) {
            sampler.set_epoch(static_cast<std::uint64_t>(epoch));
            const auto indices = sampler.indices();
            for (std::size_t at = 0; at < indices.size(); at += own)
                train_step(model, &indices[at], own, how);
        }
        model.verify_parameters();
        if (group.rank() != 0) return;
        for (std::size_t p = 0; p < network.size(); ++p)
            result.insert(result.end(), model.param(p), model.param(p) + network[p].count);
    });
    CHECK(complaints == Texts(static_cast<std::size_t>(ranks)));
    return result;
}

void check_same(const std::vector<float>& one, const std::vector<float>& other) {
    REQUIRE(one.size() == other.size());
    for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(one[i] == doctest::Approx(other[i]).epsilon(1e-4));
}

}  // namespace

TEST_CASE("sdk: any number of ranks gets the result of one rank with the whole batches") {
    const auto alone = trained(1, {});
    CHECK(alone[0] != doctest::Approx(made_up(0, 0)));
    for (const int ranks : {2, 3, 4}) {
        CAPTURE(ranks);
        check_same(trained(ranks, {}), alone);
        check_same(trained(ranks, {.micro_batches = 2}), alone);
        check_same(trained(ranks, {.reorder = true}), alone);
        check_same(trained(ranks, {.in_flat_arrays = true}), alone);
    }
}

TEST_CASE("sdk: clipped gradients are those of the whole batch, clipped") {
    const auto alone = trained(1, {.max_norm = 0.2F});
    CHECK(alone != trained(1, {}));
    for (const int ranks : {2, 4})
        check_same(trained(ranks, {.micro_batches = 3, .max_norm = 0.2F}), alone);
}

TEST_CASE("sdk: the same training gives the same bits again") {
    CHECK(trained(3, {.micro_batches = 2}) == trained(3, {.micro_batches = 2}));
}
