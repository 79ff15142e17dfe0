// SPDX-License-Identifier: Apache-2.0
#include "examples/transformer/adam_w.hpp"
#include "examples/transformer/corpus.hpp"
#include "examples/transformer/model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace transformer;

namespace {

constexpr Shape small{.vocabulary = 7, .context = 6, .width = 8, .heads = 2, .layers = 2};

/// A model with memory of its own, and two windows.
struct Example {
    using Memory = std::vector<std::vector<float>>;

    static Memory zeros() {
        Memory memory;
        for (const auto& spec : parameters_of(small))
            memory.emplace_back(spec.count);
        return memory;
    }
    static std::vector<float*> pointers(Memory& memory) {
        std::vector<float*> all;
        for (auto& one : memory)
            all.push_back(one.data());
        return all;
    }

    Example() {
        // With values as small as initially, a gradient would be no larger than the rounding error.
        std::mt19937_64 random(5);
        for (auto& parameter : values)
            for (auto& number : parameter)
                number = static_cast<float>(random() % 2001) / 2000 - 0.5F;
    }

    double loss() {
        return model.train({first.data(), second.data()}, 1, [](std::size_t) {});
    }

    Memory values = zeros();
    Memory gradients = zeros();
    Model model{small, pointers(values), pointers(gradients)};
    std::vector<std::uint8_t> first{0, 1, 2, 3, 4, 5, 6}, second{6, 6, 0, 2, 1, 1, 3};
};

}  // namespace

TEST_CASE("transformer: the gradient of each parameter is the slope of the loss") {
    Example example;
    example.loss();
    const auto gradients = example.gradients;
    const auto specs = parameters_of(small);
    for (std::size_t i = 0; i < specs.size(); ++i) {
        CAPTURE(specs[i].name);
        // Checked along the gradient, where the slope is its norm.
        double norm = 0;
        for (const float value : gradients[i])
            norm += static_cast<double>(value) * value;
        norm = std::sqrt(norm);
        REQUIRE(norm > 1e-4);
        const auto moved = [&](double distance) {
            const auto kept = example.values[i];
            for (std::size_t k = 0; k < kept.size(); ++k)
                example.values[i][k] += static_cast<float>(distance * gradients[i][k] / norm);
            const double loss = example.loss();
            example.values[i] = kept;
            return loss;
        };
        constexpr double step = 0.01;
        const double slope = (moved(step) - moved(-step)) / (2 * step);
        CHECK(slope == doctest::Approx(norm).epsilon(0.01));
    }
}

TEST_CASE("transformer: each parameter is ready once, the last first, and gradients add up") {
    Example example;
    std::vector<std::size_t> ready;
    const auto note = [&](std::size_t parameter) { ready.push_back(parameter); };
    example.model.train({example.first.data()}, 0.5F, note);
    REQUIRE(ready.size() == parameters_of(small).size());
    for (std::size_t i = 0; i < ready.size(); ++i)
        CHECK(ready[i] == ready.size() - 1 - i);

    const auto half = example.gradients;
    example.model.train({example.first.data()}, 0.5F, [](std::size_t) {});
    for (std::size_t i = 0; i < half.size(); ++i)
        for (std::size_t k = 0; k < half[i].size(); ++k)
            CHECK(example.gradients[i][k] == doctest::Approx(2 * half[i][k]).epsilon(1e-4));
}

TEST_CASE("transformer: a token is predicted from those before it only") {
    Example example;
    const auto before = example.model.next({0, 1, 2});
    CHECK(example.model.next({0, 1, 2}) == before);
    // Beyond the context the oldest do not count.
    CHECK(example.model.next({3, 5, 0, 1, 2, 3, 4, 5}) == example.model.next({0, 1, 2, 3, 4, 5}));
}

TEST_CASE("transformer: a text is windows side by side") {
    const Corpus corpus("abcabcabcX", 3);
    CHECK(corpus.vocabulary() == 4);
    CHECK(corpus.window_count() == 3);
    CHECK(corpus.text_of({corpus.window(2), corpus.window(2) + 4}) == "abcX");
    CHECK(corpus.text_of(corpus.tokens_of("cab")) == "cab");
    CHECK_THROWS_AS(corpus.tokens_of("d"), std::invalid_argument);
    CHECK_THROWS_AS(Corpus("abc", 3), std::invalid_argument);
    CHECK(sums_in_words(100, 1).size() == 100);
    CHECK(sums_in_words(100, 1) == sums_in_words(100, 1));
    CHECK(sums_in_words(100, 1) != sums_in_words(100, 2));
}

TEST_CASE("transformer: AdamW's first step has the size of its rate, and weights decay beside it") {
    AdamW optimizer({{"a.weight", 1}, {"a.bias", 1}});
    float weight = 2, bias = 2;
    const float gradient = 5;
    optimizer.step(0, &weight, &gradient, 0.01F, 1);
    optimizer.step(1, &bias, &gradient, 0.01F, 1);
    CHECK(bias == doctest::Approx(2 - 0.01));
    CHECK(weight == doctest::Approx(2 * (1 - 0.01 * 0.1) - 0.01));
}
