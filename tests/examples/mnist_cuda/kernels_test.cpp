// SPDX-License-Identifier: Apache-2.0
// Each kernel of examples/mnist, run on the CPU, beside plain C++ that says what it should do.
#include "examples/mnist/cuda/kernels.hpp"

#include "examples/mnist/mlp.hpp"
#include "examples/mnist/optimizer.hpp"
#include "examples/mnist/random.hpp"
#include "tests/support/cuda_on_cpu/kernel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace mnist::cuda;
using mnist::Random;
using Floats = std::vector<float>;

namespace {

Floats random_floats(std::size_t count, std::uint64_t seed, double from = -1, double to = 1) {
    Random random{seed};
    Floats all(count);
    for (auto& one : all)
        one = static_cast<float>(random.uniform(from, to));
    return all;
}

/// Pictures of noise, with labels and an order.
struct Pictures {
    explicit Pictures(std::size_t count) : pixels(count * pixel_count) {
        Random random{17};
        for (auto& pixel : pixels)
            pixel = static_cast<unsigned char>(random.below(256));
        for (std::size_t i = 0; i < count; ++i) {
            labels.push_back(static_cast<unsigned char>(random.below(10)));
            order.push_back(static_cast<unsigned>((i * 7 + 3) % count));
        }
    }

    Samples samples(unsigned offset = 0, const Position* position = nullptr) const {
        return {pixels.data(), labels.data(), order.data(), position, offset};
    }

    std::vector<unsigned char> pixels;
    std::vector<unsigned char> labels;
    std::vector<unsigned> order;
};

unsigned blocks_for(std::size_t count, unsigned threads) {
    return static_cast<unsigned>((count + threads - 1) / threads);
}

void near(const Floats& is, const Floats& should, double tolerance = 1e-5) {
    REQUIRE(is.size() == should.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < is.size(); ++i)
        if (!(std::abs(is[i] - should[i]) <= tolerance * (1 + std::abs(should[i])))) ++wrong;
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a batch of bytes is gathered in the epoch's order, from where training is") {
    const Pictures pictures{11};
    const Position position{5, 2, 0};
    const unsigned batch = 4;
    Floats input(batch * pixel_count);

    REQUIRE(cuda_on_cpu::launch(
        "mnist_gather",
        {{blocks_for(batch * pixel_count / 4, 256)}, {256}},
        pictures.samples(3, &position),
        batch,
        input.data()));

    Floats should;
    for (unsigned i = 0; i < batch; ++i)
        for (unsigned p = 0; p < pixel_count; ++p) {
            const auto pixel = pictures.pixels[pictures.order[2 + 3 + i] * pixel_count + p];
            should.push_back((static_cast<float>(pixel) / 255.0F - 0.1307F) / 0.3081F);
        }
    CHECK((input == should));
}

TEST_CASE("bias, ReLU and dropout: the same units are dropped as on the CPU") {
    const unsigned batch = 3;
    const Position position{41, 0, 0};
    const auto hidden = random_floats(batch * hidden_count, 1);
    const auto bias = random_floats(hidden_count, 2);
    auto result = hidden;

    REQUIRE(cuda_on_cpu::launch(
        "mnist_bias_relu_dropout",
        {{blocks_for(batch * hidden_count / 2, 256)}, {256}},
        result.data(),
        bias.data(),
        batch,
        Dropout{&position, 9, 2, 1}));

    const auto seed = mnist::seed_of({9, 41, 2, 1});
    Floats should;
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
        const auto bits = mnist::mixed(seed + i / 2 * 2);
        const auto draw = static_cast<std::uint32_t>(i % 2 == 0 ? bits : bits >> 32U);
        const bool is_dropped = draw < static_cast<std::uint32_t>(0.2F * 0x1p32);
        dropped += is_dropped ? 1 : 0;
        const float sum = std::max(0.0F, hidden[i] + bias[i % hidden_count]);
        should.push_back(is_dropped ? 0.0F : sum * (1 / (1 - 0.2F)));
    }
    CHECK((result == should));
    CHECK(dropped > hidden.size() / 10);
    CHECK(dropped < hidden.size() / 3);
}

TEST_CASE("ReLU lets NaN through where nothing is dropped") {
    const Position position{41, 0, 0};
    Floats hidden(hidden_count, std::nanf(""));
    const Floats bias(hidden_count);

    REQUIRE(cuda_on_cpu::launch(
        "mnist_bias_relu_dropout",
        {{blocks_for(hidden_count / 2, 256)}, {256}},
        hidden.data(),
        bias.data(),
        1U,
        Dropout{&position, 9, 2, 1}));

    const auto kept =
        std::count_if(hidden.begin(), hidden.end(), [](float value) { return std::isnan(value); });
    CHECK(kept > static_cast<std::ptrdiff_t>(hidden_count / 2));
}

TEST_CASE("the last layer: loss, what is right, and the gradients before it") {
    const Pictures pictures{9};
    const Position position{0, 1, 0};
    const unsigned batch = 5;
    auto hidden = random_floats(batch * hidden_count, 3, -0.5, 1);
    for (auto& one : hidden)
        one = std::max(one, 0.0F);
    const auto weight = random_floats(class_count * hidden_count, 4);
    Floats score_gradient(batch * class_count);
    Floats hidden_gradient(batch * hidden_count);
    Floats losses(batch);
    std::vector<unsigned> correct(batch, 7);

    REQUIRE(cuda_on_cpu::launch(
        "mnist_output",
        {{batch}, {output_threads}},
        const_cast<const float*>(hidden.data()),
        weight.data(),
        pictures.samples(0, &position),
        batch,
        score_gradient.data(),
        hidden_gradient.data(),
        losses.data(),
        correct.data()));

    Floats should_score;
    Floats should_hidden;
    Floats should_losses;
    std::vector<unsigned> should_correct;
    for (std::size_t s = 0; s < batch; ++s) {
        double scores[class_count] = {};
        for (std::size_t k = 0; k < class_count; ++k)
            for (std::size_t u = 0; u < hidden_count; ++u)
                scores[k] += static_cast<double>(hidden[s * hidden_count + u]) *
                             static_cast<double>(weight[k * hidden_count + u]);
        const auto label = pictures.labels[pictures.order[1 + s]];
        const double top = *std::max_element(scores, scores + class_count);
        should_correct.push_back(scores[label] == top ? 1 : 0);
        double sum = 0;
        for (const double one : scores)
            sum += std::exp(one - top);
        should_losses.push_back(static_cast<float>(std::log(sum) - scores[label] + top));
        for (std::size_t k = 0; k < class_count; ++k)
            should_score.push_back(static_cast<float>(
                (std::exp(scores[k] - top) / sum - (k == label ? 1 : 0)) / batch));
        for (std::size_t u = 0; u < hidden_count; ++u) {
            double slope = 0;
            for (std::size_t k = 0; k < class_count; ++k)
                slope += static_cast<double>(should_score[s * class_count + k]) *
                         static_cast<double>(weight[k * hidden_count + u]);
            should_hidden.push_back(
                hidden[s * hidden_count + u] > 0 ? static_cast<float>(slope / 0.8) : 0.0F);
        }
    }
    near(score_gradient, should_score);
    near(hidden_gradient, should_hidden);
    near(losses, should_losses);
    CHECK(correct == should_correct);
}

TEST_CASE("sums over the batch: the last layer's gradient, a bias's, loss and right answers") {
    for (const unsigned batch : {1U, 6U, 600U}) {
        CAPTURE(batch);
        const auto score_gradient = random_floats(batch * class_count, 5);
        const auto hidden = random_floats(batch * hidden_count, 6);
        const auto hidden_gradient = random_floats(batch * hidden_count, 7);
        const auto losses = random_floats(batch, 8, 0, 3);
        std::vector<unsigned> correct(batch);
        for (std::size_t s = 0; s < batch; ++s)
            correct[s] = s % 3 == 0 ? 1 : 0;
        Floats weight_gradient(class_count * hidden_count, 99);
        Floats bias_gradient(hidden_count, 99);
        BatchSums sums{10, 20};

        REQUIRE(cuda_on_cpu::launch(
            "mnist_output_gradients",
            {{class_count + 2}, {gradient_threads}},
            score_gradient.data(),
            hidden.data(),
            hidden_gradient.data(),
            losses.data(),
            static_cast<const unsigned*>(correct.data()),
            batch,
            weight_gradient.data(),
            bias_gradient.data(),
            &sums));

        Floats should_weight(class_count * hidden_count);
        Floats should_bias(hidden_count);
        double loss = 10;
        Long right = 20;
        for (std::size_t s = 0; s < batch; ++s) {
            loss += static_cast<double>(losses[s]);
            right += correct[s];
            for (std::size_t u = 0; u < hidden_count; ++u) {
                should_bias[u] += hidden_gradient[s * hidden_count + u];
                for (std::size_t k = 0; k < class_count; ++k)
                    should_weight[k * hidden_count + u] +=
                        score_gradient[s * class_count + k] * hidden[s * hidden_count + u];
            }
        }
        near(weight_gradient, should_weight, 1e-4);
        near(bias_gradient, should_bias, 1e-4);
        CHECK(sums.loss == doctest::Approx(loss));
        CHECK(sums.correct == right);
    }
}

TEST_CASE("backward through a hidden layer, and its bias's gradient") {
    for (const unsigned batch : {1U, 37U}) {
        CAPTURE(batch);
        const auto before = random_floats(batch * hidden_count, 9);
        const auto hidden = random_floats(batch * hidden_count, 10);
        auto gradient = before;
        Floats bias_gradient(hidden_count, 99);

        REQUIRE(cuda_on_cpu::launch(
            "mnist_hidden_backward",
            {{hidden_count / backward_units}, {backward_threads}},
            gradient.data(),
            hidden.data(),
            batch,
            bias_gradient.data()));

        Floats should(before.size());
        Floats should_bias(hidden_count);
        for (std::size_t i = 0; i < before.size(); ++i) {
            should[i] = hidden[i] > 0 ? before[i] * (1 / (1 - 0.2F)) : 0.0F;
            should_bias[i % hidden_count] += should[i];
        }
        CHECK((gradient == should));
        near(bias_gradient, should_bias);
    }
}

namespace {

/// All values of a network, in the memory layout of the CPU's optimizer.
struct State {
    explicit State(mnist::OptimizerKind kind)
        : optimizer(kind, 0.01F),
          parameters(mnist::laid_out({"parameters"}, parameter_memory)[0].values),
          gradients(mnist::laid_out({"gradients"}, gradient_memory)[0].values) {
        const auto parameter_values = random_floats(parameter_memory.size(), 11);
        std::copy(parameter_values.begin(), parameter_values.end(), parameter_memory.begin());
        const auto slopes = random_floats(gradient_memory.size(), 12);
        std::copy(slopes.begin(), slopes.end(), gradient_memory.begin());
    }

    OptimizedStep step(Position& position, const unsigned* commit_word) const {
        OptimizedStep all{};
        for (std::size_t p = 0; p < parameter_count; ++p)
            all.parameters[p] = {
                parameters[p],
                gradients[p],
                optimizer.moments().front().values[p],
                optimizer.moments().back().values[p],
                static_cast<unsigned>(mnist::Mlp::parameters()[p].count())};
        all.commit_word = commit_word;
        all.position = &position;
        all.rate = 0.01F;
        all.batch_size = 64;
        return all;
    }

    Floats parameter_memory, gradient_memory;
    mnist::Optimizer optimizer;
    mnist::Numbers parameters, gradients;
};

constexpr std::size_t all_numbers = 118'272;

bool update(const char* kernel, const OptimizedStep& step) {
    return cuda_on_cpu::launch(kernel, {{blocks_for(all_numbers, 256)}, {256}}, step);
}

}  // namespace

TEST_CASE("each optimizer's steps are those of the CPU's, and the last block goes on") {
    for (const auto kind : {mnist::OptimizerKind::sgd, mnist::OptimizerKind::adam}) {
        const auto* kernel =
            kind == mnist::OptimizerKind::sgd ? "mnist_update_sgd" : "mnist_update_adam";
        CAPTURE(kernel);
        State device{kind};
        State host{kind};
        Position position{6, 128, 0};
        const unsigned commit = 1;

        for (std::uint64_t number = 7; number < 10; ++number) {
            REQUIRE(update(kernel, device.step(position, number == 8 ? nullptr : &commit)));
            host.optimizer.step(host.parameters, host.gradients, number);
        }

        near(device.parameter_memory, host.parameter_memory, 1e-6);
        for (std::size_t m = 0; m < host.optimizer.moments().size(); ++m)
            for (std::size_t p = 0; p < parameter_count; ++p) {
                const auto count = mnist::Mlp::parameters()[p].count();
                const auto* is = device.optimizer.moments()[m].values[p];
                const auto* should = host.optimizer.moments()[m].values[p];
                near(Floats(is, is + count), Floats(should, should + count), 1e-6);
            }
        CHECK(position.step == 9);
        CHECK(position.offset == 128 + 3 * 64);
        CHECK(position.finished_blocks == 0);
    }
}

TEST_CASE("a step whose reduction was aborted changes nothing and counts for nothing") {
    for (const auto kind : {mnist::OptimizerKind::sgd, mnist::OptimizerKind::adam}) {
        State device{kind};
        const auto before = device.parameter_memory;
        Position position{6, 128, 0};
        const unsigned commit = 0;

        REQUIRE(update(
            kind == mnist::OptimizerKind::sgd ? "mnist_update_sgd" : "mnist_update_adam",
            device.step(position, &commit)));

        CHECK((device.parameter_memory == before));
        for (const auto& moment : device.optimizer.moments())
            CHECK(moment.values[0][0] == 0.0F);
        CHECK(position.step == 6);
        CHECK(position.offset == 128);
    }
}

TEST_CASE("which test samples are named right is counted, from any place in their order") {
    const Pictures pictures{120};
    const unsigned batch = 100;
    const auto hidden = random_floats(batch * hidden_count, 14);
    const auto weight = random_floats(class_count * hidden_count, 15);
    unsigned correct = 100;

    REQUIRE(cuda_on_cpu::launch(
        "mnist_count_correct",
        {{batch}, {output_threads}},
        hidden.data(),
        weight.data(),
        pictures.samples(5),
        &correct));

    unsigned should = 100;
    for (std::size_t s = 0; s < batch; ++s) {
        double scores[class_count] = {};
        for (std::size_t k = 0; k < class_count; ++k)
            for (std::size_t u = 0; u < hidden_count; ++u)
                scores[k] += static_cast<double>(hidden[s * hidden_count + u]) *
                             static_cast<double>(weight[k * hidden_count + u]);
        const auto best = std::max_element(scores, scores + class_count) - scores;
        if (best == pictures.labels[pictures.order[5 + s]]) ++should;
    }
    CHECK(correct == should);
    CHECK(correct > 100);
}
