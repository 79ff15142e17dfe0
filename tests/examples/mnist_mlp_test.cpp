// SPDX-License-Identifier: Apache-2.0
#include "examples/mnist/digit_set.hpp"
#include "examples/mnist/mlp.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace mnist;

namespace {

/// A network with memory of its own.
struct Network {
    Network() : model(pointers(values), pointers(gradients)) { model.initialise(3); }

    BatchResult train(
        const Dataset& data, const std::vector<std::uint64_t>& batch, DropoutKey key) {
        done.clear();
        return model.train(
            data, batch.data(), batch.size(), key, [this](std::size_t i) { done.push_back(i); });
    }

    using Memory = std::vector<std::vector<float>>;

    static Memory zeros() {
        Memory memory;
        for (const auto& shape : Mlp::parameters())
            memory.emplace_back(shape.count());
        return memory;
    }
    static std::vector<float*> pointers(Memory& memory) {
        std::vector<float*> all;
        for (auto& one : memory)
            all.push_back(one.data());
        return all;
    }

    Memory values = zeros();
    Memory gradients = zeros();
    Mlp model;
    std::vector<std::size_t> done;
};

const Dataset& digits() {
    static const auto data = paint_digits(64, Split::train, 1, {});
    return data;
}

}  // namespace

TEST_CASE("the network is 784-128-128-10 without a bias in the last layer") {
    std::size_t count = 0;
    for (const auto& shape : Mlp::parameters())
        count += shape.count();

    CHECK(Mlp::parameters().size() == 5);
    CHECK(count == 118'272);
}

TEST_CASE("gradients are those of the loss, dropout included") {
    Network network;
    const std::vector<std::uint64_t> batch{5, 9, 9, 30};
    const DropoutKey key{1, 2, 3};
    network.train(digits(), batch, key);
    const auto gradients = network.gradients;

    // Checks a few values of each parameter by finite differences: large enough for float's
    // precision, small enough that no unit crosses the kink of its ReLU.
    for (std::size_t p = 0; p < gradients.size(); ++p) {
        const auto& all = gradients[p];
        for (std::size_t i = 0; i < all.size(); i += all.size() / 9 + 1) {
            const float step = 5e-4F;
            auto& value = network.values[p][i];
            const float original = value;
            value = original + step;
            const double above = network.train(digits(), batch, key).loss;
            value = original - step;
            const double below = network.train(digits(), batch, key).loss;
            value = original;
            const double measured = (above - below) / (2 * static_cast<double>(step)) /
                                    static_cast<double>(batch.size());
            CAPTURE(Mlp::parameters()[p].name);
            CHECK(all[i] == doctest::Approx(measured).epsilon(0.02).scale(0.1));
        }
    }
}

TEST_CASE("gradients are reported from the last parameter to the first, each once") {
    Network network;
    network.train(digits(), {1, 2, 3}, {});
    CHECK(network.done == std::vector<std::size_t>{4, 3, 2, 1, 0});
}

TEST_CASE("a step gives the same bits again, and other dropout for another step, rank or seed") {
    Network network;
    const std::vector<std::uint64_t> batch{0, 1, 2, 3, 4, 5, 6};
    const auto gradients_for = [&](DropoutKey key) {
        network.train(digits(), batch, key);
        return network.gradients;
    };
    const auto first = gradients_for({1, 1, 1});

    CHECK((gradients_for({1, 1, 2}) != first));
    CHECK((gradients_for({1, 2, 1}) != first));
    CHECK((gradients_for({2, 1, 1}) != first));
    CHECK((gradients_for({1, 1, 1}) == first));
    CHECK((Network{}.values == network.values));
}

TEST_CASE("a test share counts each picture once over all ranks") {
    Network network;
    const auto all = network.model.count_correct(digits(), 0, 1);

    std::int64_t sum = 0;
    for (std::size_t rank = 0; rank < 5; ++rank)
        sum += network.model.count_correct(digits(), rank, 5);

    CHECK(sum == all);
    CHECK(network.model.count_correct(digits(), 64, 5) == 0);
}
