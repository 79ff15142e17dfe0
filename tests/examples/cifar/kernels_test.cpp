// SPDX-License-Identifier: Apache-2.0
// Each kernel of the CIFAR example, run on the CPU, beside plain C++.
#include "examples/cifar/cuda/kernels.hpp"

#include "examples/cifar/image_file.hpp"
#include "examples/mnist/random.hpp"
#include "tests/examples/cifar/reference_net.hpp"
#include "tests/support/cuda_on_cpu/kernel.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <vector>

using cifar::Eight;
using reference::Numbers;

namespace {

/// A launch whose arguments have exactly the kernel's types.
template <class Signature>
struct Launch;
template <class... Parameters>
struct Launch<void(Parameters...)> {
    static bool run(
        const char* name,
        unsigned blocks,
        unsigned threads,
        std::type_identity_t<Parameters>... arguments) {
        return cuda_on_cpu::launch<Parameters...>(name, {{blocks}, {threads}}, arguments...);
    }
};

template <class Signature, class... Arguments>
void run(const char* name, unsigned blocks, unsigned threads, Arguments... arguments) {
    REQUIRE(Launch<Signature>::run(name, blocks, threads, arguments...));
}

double widened(cifar::Bf16 bits) {
    ddprun::BFloat16 number;
    number.bits = bits;
    return static_cast<double>(static_cast<float>(number));
}

cifar::Bf16 narrowed(double number) {
    return ddprun::BFloat16{static_cast<float>(number)}.bits;
}

std::vector<Eight> tensor(const Numbers& numbers) {
    std::vector<Eight> all(numbers.size() / 8);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        all[i / 8].value[i % 8] = narrowed(numbers[i]);
    return all;
}

Numbers numbers(const std::vector<Eight>& tensor) {
    Numbers all;
    for (const auto& eight : tensor)
        for (const auto bits : eight.value)
            all.push_back(widened(bits));
    return all;
}

/// Rounded to bfloat16, as in a tensor.
Numbers random_numbers(std::size_t count, std::uint64_t seed, double around = 0) {
    mnist::Random random{seed};
    Numbers all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(reference::as_bfloat16(around + random.normal(1)));
    return all;
}

std::vector<float> floats(const Numbers& numbers) {
    return {numbers.begin(), numbers.end()};
}

double norm_of(const Numbers& numbers) {
    double sum = 0;
    for (const auto number : numbers)
        sum += number * number;
    return std::sqrt(sum);
}

/// The distance of two vectors as a share of the second one's length.
template <class A>
double apart(const A& a, const Numbers& b) {
    REQUIRE(a.size() == b.size());
    Numbers difference;
    for (std::size_t i = 0; i < b.size(); ++i)
        difference.push_back(static_cast<double>(a[i]) - b[i]);
    return norm_of(difference) / std::max(norm_of(b), 1e-30);
}

// Rounding a vector to bfloat16 moves it by about a five-hundredth at most.
constexpr double rounding = 0.004;
constexpr double float_rounding = 1e-5;

/// A batch norm of this shape, its parameters and what backward gets, with room for results.
struct NormCase {
    std::size_t count, side, channels;
    bool pools;

    std::size_t output_side() const { return pools ? side / 2 : side; }
    std::size_t rows() const { return count * side * side; }
    std::size_t output_rows() const { return count * output_side() * output_side(); }

    Numbers x = random_numbers(rows() * channels, 1, 0.5);
    Numbers dy = random_numbers(output_rows() * channels, 2);
    Numbers weight = random_numbers(channels, 3, 1);
    Numbers bias = random_numbers(channels, 4);
    unsigned blocks = 11;

    std::vector<float> sums() const { return std::vector<float>(2 * channels); }

    std::vector<float> folded(const std::vector<float>& partial) const {
        auto result = sums();
        run<cifar::NormFold>(
            "cifar_norm_fold",
            static_cast<unsigned>(2 * channels + cifar::fold_outputs - 1) / cifar::fold_outputs,
            cifar::fold_outputs * cifar::fold_slices,
            partial.data(),
            static_cast<int>(blocks),
            static_cast<int>(channels),
            result.data());
        return result;
    }

    std::vector<float> forward_sums(const std::vector<Eight>& of) const {
        std::vector<float> partial(blocks * 2 * channels, std::nanf(""));
        run<cifar::NormSums>(
            "cifar_norm_sums",
            blocks,
            cifar::norm_threads,
            of.data(),
            static_cast<int>(of.size() * 8 / channels),
            static_cast<int>(channels),
            partial.data());
        return folded(partial);
    }

    std::vector<float> finished(
        const std::vector<float>& sums, std::size_t values, std::vector<float>& running) const {
        std::vector<float> kept(cifar::norm_kept * channels);
        const auto weights = floats(weight);
        const auto biases = floats(bias);
        run<cifar::NormFinish>(
            "cifar_norm_finish",
            static_cast<unsigned>(channels + 63) / 64,
            64,
            sums.data(),
            static_cast<float>(values),
            static_cast<int>(channels),
            weights.data(),
            biases.data(),
            kept.data(),
            running.data());
        return kept;
    }

    std::vector<Eight> applied(
        const std::vector<Eight>& of, const std::vector<float>& kept, const Eight* added) const {
        const auto rows = of.size() * 8 / channels / (pools ? 4 : 1);
        std::vector<Eight> y(rows * channels / 8);
        if (pools)
            run<cifar::NormApplyPool>(
                "cifar_norm_apply_pool",
                blocks,
                cifar::norm_threads,
                of.data(),
                kept.data(),
                static_cast<int>(rows),
                static_cast<int>(output_side()),
                static_cast<int>(channels),
                y.data());
        else
            run<cifar::NormApply>(
                "cifar_norm_apply",
                blocks,
                cifar::norm_threads,
                of.data(),
                kept.data(),
                added,
                static_cast<int>(rows),
                static_cast<int>(channels),
                y.data());
        return y;
    }

    std::vector<float> backward_sums(
        const std::vector<Eight>& of,
        const std::vector<Eight>& gradient,
        const std::vector<float>& kept) const {
        std::vector<float> partial(blocks * 2 * channels, std::nanf(""));
        const auto rows = static_cast<int>(gradient.size() * 8 / channels);
        if (pools)
            run<cifar::NormBackwardSumsPool>(
                "cifar_norm_backward_sums_pool",
                blocks,
                cifar::norm_threads,
                of.data(),
                gradient.data(),
                kept.data(),
                rows,
                static_cast<int>(output_side()),
                static_cast<int>(channels),
                partial.data());
        else
            run<cifar::NormBackwardSums>(
                "cifar_norm_backward_sums",
                blocks,
                cifar::norm_threads,
                of.data(),
                gradient.data(),
                kept.data(),
                rows,
                static_cast<int>(channels),
                partial.data());
        return folded(partial);
    }

    std::vector<Eight> backward(
        const std::vector<Eight>& of,
        const std::vector<Eight>& gradient,
        const std::vector<float>& kept,
        const std::vector<float>& sums,
        std::size_t values) const {
        std::vector<Eight> dx(of.size());
        const auto rows = static_cast<int>(gradient.size() * 8 / channels);
        const float inverse = 1 / static_cast<float>(values);
        if (pools)
            run<cifar::NormBackwardPool>(
                "cifar_norm_backward_pool",
                blocks,
                cifar::norm_threads,
                of.data(),
                gradient.data(),
                kept.data(),
                sums.data(),
                inverse,
                rows,
                static_cast<int>(output_side()),
                static_cast<int>(channels),
                dx.data());
        else
            run<cifar::NormBackward>(
                "cifar_norm_backward",
                blocks,
                cifar::norm_threads,
                of.data(),
                gradient.data(),
                kept.data(),
                sums.data(),
                inverse,
                rows,
                static_cast<int>(channels),
                dx.data());
        return dx;
    }

    Numbers expected_output(const reference::Norm& norm, const Numbers& added) const {
        if (pools) return reference::relu_pool(norm.shifted, count, side, channels);
        Numbers y;
        for (std::size_t i = 0; i < norm.shifted.size(); ++i)
            y.push_back(std::max(norm.shifted[i], 0.0) + (added.empty() ? 0 : added[i]));
        return y;
    }

    Numbers expected_shifted_gradient(const reference::Norm& norm) const {
        if (pools) return reference::relu_pool_backward(norm.shifted, dy, count, side, channels);
        Numbers gradient;
        for (std::size_t i = 0; i < dy.size(); ++i)
            gradient.push_back(norm.shifted[i] > 0 ? dy[i] : 0);
        return gradient;
    }
};

std::vector<NormCase> norm_cases() {
    return {
        {3, 4, 8, false},
        {3, 4, 8, true},
        {1, 2, 16, true},
        {5, 6, 32, false},
        {2, 4, 1024, true},
        {2, 2, 1024, false}};
}

std::vector<float> beginning_averages(std::size_t channels) {
    std::vector<float> running(channels, 0.0F);
    running.insert(running.end(), channels, 1.0F);
    return running;
}

}  // namespace

TEST_CASE("batch norm's kernels give what plain batch norm, ReLU and pooling give") {
    for (const auto& c : norm_cases()) {
        CAPTURE(c.channels);
        CAPTURE(c.pools);
        const auto x = tensor(c.x);
        const auto expected = reference::norm_forward(c.x, c.weight, c.bias);

        auto running = beginning_averages(c.channels);
        const auto kept = c.finished(c.forward_sums(x), c.rows(), running);
        for (std::size_t k = 0; k < c.channels; ++k) {
            CHECK(kept[k] == doctest::Approx(expected.mean[k]).epsilon(1e-4));
            CHECK(kept[c.channels + k] == doctest::Approx(expected.inverse[k]).epsilon(1e-4));
            const auto rows = static_cast<double>(c.rows());
            CHECK(running[k] == doctest::Approx(0.1 * expected.mean[k]).epsilon(1e-3));
            CHECK(
                running[c.channels + k] ==
                doctest::Approx(0.9 + 0.1 * expected.variance[k] * rows / (rows - 1))
                    .epsilon(1e-3));
        }

        const auto added = c.pools ? Numbers{} : random_numbers(c.x.size(), 5);
        const auto added_tensor = tensor(added);
        const auto y = c.applied(x, kept, added.empty() ? nullptr : added_tensor.data());
        CHECK(apart(numbers(y), c.expected_output(expected, added)) < rounding);
    }
}

TEST_CASE("batch norm's kernels give the gradients of plain batch norm, ReLU and pooling") {
    for (const auto& c : norm_cases()) {
        CAPTURE(c.channels);
        CAPTURE(c.pools);
        const auto x = tensor(c.x);
        const auto dy = tensor(c.dy);
        const auto norm = reference::norm_forward(c.x, c.weight, c.bias);
        const auto expected =
            reference::norm_backward(norm, c.weight, c.expected_shifted_gradient(norm));

        auto running = beginning_averages(c.channels);
        const auto kept = c.finished(c.forward_sums(x), c.rows(), running);
        const auto sums = c.backward_sums(x, dy, kept);
        std::vector<float> weight_gradient(c.channels);
        std::vector<float> bias_gradient(c.channels);
        run<cifar::NormGradients>(
            "cifar_norm_gradients",
            static_cast<unsigned>(c.channels + 63) / 64,
            64,
            sums.data(),
            static_cast<int>(c.channels),
            weight_gradient.data(),
            bias_gradient.data());
        CHECK(apart(weight_gradient, expected.weight) < 1e-4);
        CHECK(apart(bias_gradient, expected.bias) < 1e-4);

        const auto dx = c.backward(x, dy, kept, sums, c.rows());
        CHECK(apart(numbers(dx), expected.x) < rounding);
    }
}

TEST_CASE("two halves of a batch whose sums are added are normalised as the whole batch is") {
    for (const auto& c : {NormCase{4, 4, 16, false}, NormCase{4, 4, 16, true}}) {
        CAPTURE(c.pools);
        const auto half = [](const std::vector<Eight>& all, int which) {
            const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
            return which == 0 ? std::vector<Eight>(all.begin(), middle)
                              : std::vector<Eight>(middle, all.end());
        };
        const auto added_up = [](std::vector<float> a, const std::vector<float>& b) {
            for (std::size_t i = 0; i < a.size(); ++i)
                a[i] += b[i];
            return a;
        };
        const auto x = tensor(c.x);
        const auto dy = tensor(c.dy);
        const std::vector<Eight> xs[] = {half(x, 0), half(x, 1)};
        const std::vector<Eight> dys[] = {half(dy, 0), half(dy, 1)};

        auto running = beginning_averages(c.channels);
        const auto whole_kept = c.finished(c.forward_sums(x), c.rows(), running);
        const auto kept =
            c.finished(added_up(c.forward_sums(xs[0]), c.forward_sums(xs[1])), c.rows(), running);
        const auto y = numbers(c.applied(x, whole_kept, nullptr));
        auto joined = numbers(c.applied(xs[0], kept, nullptr));
        const auto second = numbers(c.applied(xs[1], kept, nullptr));
        joined.insert(joined.end(), second.begin(), second.end());
        CHECK(apart(joined, y) < 1e-3);

        const auto sums =
            added_up(c.backward_sums(xs[0], dys[0], kept), c.backward_sums(xs[1], dys[1], kept));
        const auto dx =
            numbers(c.backward(x, dy, whole_kept, c.backward_sums(x, dy, whole_kept), c.rows()));
        joined = numbers(c.backward(xs[0], dys[0], kept, sums, c.rows()));
        const auto rest = numbers(c.backward(xs[1], dys[1], kept, sums, c.rows()));
        joined.insert(joined.end(), rest.begin(), rest.end());
        CHECK(apart(joined, dx) < 1e-3);
    }
}

TEST_CASE("a NaN goes through batch norm, ReLU and pooling, alone or over a whole channel") {
    for (const bool pools : {false, true}) {
        CAPTURE(pools);
        const NormCase c{2, 4, 8, pools};
        auto numbers_with_nan = c.x;
        numbers_with_nan[c.channels] = std::nan("");  // channel 0 of the first picture's pixel 1
        const auto x = tensor(numbers_with_nan);
        const auto is_nan = [](double value) { return std::isnan(value); };

        auto running = beginning_averages(c.channels);
        const auto of_others = c.finished(c.forward_sums(tensor(c.x)), c.rows(), running);
        const auto alone = numbers(c.applied(x, of_others, nullptr));
        CHECK(std::isnan(alone[pools ? 0 : c.channels]));
        CHECK(std::count_if(alone.begin(), alone.end(), is_nan) == 1);

        const auto kept = c.finished(c.forward_sums(x), c.rows(), running);
        CHECK(std::isnan(kept[c.channels]));
        const auto all = numbers(c.applied(x, kept, nullptr));
        CHECK(std::size_t(std::count_if(all.begin(), all.end(), is_nan)) == c.output_rows());
    }
}

TEST_CASE("evaluation normalises by the running averages") {
    const NormCase c{2, 2, 8, false};
    std::vector<float> running;
    for (std::size_t k = 0; k < c.channels; ++k)
        running.push_back(0.1F * static_cast<float>(k));
    for (std::size_t k = 0; k < c.channels; ++k)
        running.push_back(1 + static_cast<float>(k));
    std::vector<float> kept(cifar::norm_kept * c.channels);
    const auto weight = floats(c.weight);
    const auto bias = floats(c.bias);
    run<cifar::NormFinishRunning>(
        "cifar_norm_finish_running",
        1,
        64,
        running.data(),
        static_cast<int>(c.channels),
        weight.data(),
        bias.data(),
        kept.data());

    Numbers expected;
    for (std::size_t i = 0; i < c.x.size(); ++i) {
        const auto k = i % c.channels;
        const double deviation = std::sqrt(static_cast<double>(running[c.channels + k]) + 1e-5);
        const double centred = (c.x[i] - static_cast<double>(running[k])) / deviation;
        expected.push_back(std::max(0.0, centred * c.weight[k] + c.bias[k]));
    }
    CHECK(apart(numbers(c.applied(tensor(c.x), kept, nullptr)), expected) < rounding);
}

namespace {

constexpr std::size_t features = 40;
constexpr std::size_t pixels = 4;

struct HeadCase {
    std::vector<std::uint8_t> labels{3, 9, 0};
    Numbers x = random_numbers(labels.size() * pixels * features, 6);
    std::vector<float> weight = floats(random_numbers(cifar::class_count * features, 7));

    std::vector<float> maxima = std::vector<float>(labels.size() * features);
    std::vector<unsigned char> winners = std::vector<unsigned char>(labels.size() * features);
    std::vector<float> losses = std::vector<float>(labels.size());
    std::vector<unsigned char> is_right = std::vector<unsigned char>(labels.size());
    std::vector<float> gradients = std::vector<float>(labels.size() * cifar::class_count);
    double totals[2] = {10, 20};

    int count() const { return static_cast<int>(labels.size()); }

    void forward() {
        const auto picture = tensor(x);
        run<cifar::GlobalMax>(
            "cifar_global_max",
            2,
            64,
            reinterpret_cast<const cifar::Bf16*>(picture.data()),
            count(),
            static_cast<int>(pixels),
            static_cast<int>(features),
            maxima.data(),
            winners.data());
        run<cifar::Scores>(
            "cifar_scores",
            static_cast<unsigned>(count()),
            32,
            maxima.data(),
            weight.data(),
            labels.data(),
            static_cast<int>(features),
            cifar::score_scale,
            1 / static_cast<float>(count()),
            losses.data(),
            is_right.data(),
            gradients.data());
        run<cifar::AddTotals>(
            "cifar_add_totals", 1, 32, losses.data(), is_right.data(), count(), &totals[0]);
    }
};

}  // namespace

TEST_CASE("the last layer's kernels give scores, loss and right answers") {
    HeadCase c;
    c.forward();
    double sum = 0;
    int right = 0;
    for (std::size_t n = 0; n < c.labels.size(); ++n) {
        Numbers scores(cifar::class_count);
        for (std::size_t f = 0; f < features; ++f) {
            double largest = -1e9;
            for (std::size_t p = 0; p < pixels; ++p)
                largest = std::max(largest, c.x[(n * pixels + p) * features + f]);
            CHECK(c.maxima[n * features + f] == static_cast<float>(largest));
            CHECK(c.x[(n * pixels + c.winners[n * features + f]) * features + f] == largest);
            for (std::size_t k = 0; k < scores.size(); ++k)
                scores[k] += 0.125 * largest * static_cast<double>(c.weight[k * features + f]);
        }
        double exponentials = 0;
        for (const auto score : scores)
            exponentials += std::exp(score);
        const double loss = std::log(exponentials) - scores[c.labels[n]];
        CHECK(c.losses[n] == doctest::Approx(loss).epsilon(1e-4));
        const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
        CHECK(c.is_right[n] == (best == c.labels[n] ? 1 : 0));
        sum += loss;
        right += c.is_right[n];
        for (std::size_t k = 0; k < scores.size(); ++k) {
            const double share = std::exp(scores[k]) / exponentials - (k == c.labels[n] ? 1 : 0);
            CHECK(
                static_cast<double>(c.gradients[n * scores.size() + k]) ==
                doctest::Approx(share * 0.125 / 3).epsilon(1e-4));
        }
    }
    CHECK(c.totals[0] == doctest::Approx(10 + sum).epsilon(1e-5));
    CHECK(c.totals[1] == 20 + right);
}

TEST_CASE("a NaN in any pixel is a NaN in the picture's loss, and in no other's") {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
        HeadCase c;
        c.x[(pixels + pixel) * features + 3] = std::nan("");
        c.forward();
        CHECK(std::isnan(c.maxima[features + 3]));
        CHECK(c.winners[features + 3] == pixel);
        CHECK(std::isnan(c.losses[1]));
        CHECK(std::isfinite(c.losses[0]));
        CHECK(std::isfinite(c.losses[2]));
        CHECK(std::isnan(c.totals[0]));
    }
}

TEST_CASE("the last layer's kernels send gradients to its weights and to the largest pixels") {
    HeadCase c;
    c.forward();
    std::vector<float> gradient(c.weight.size());
    run<cifar::LinearGradient>(
        "cifar_linear_gradient",
        7,
        64,
        c.gradients.data(),
        c.maxima.data(),
        c.count(),
        static_cast<int>(features),
        gradient.data());
    std::vector<Eight> dx(c.x.size() / 8);
    run<cifar::FeaturesBackward>(
        "cifar_features_backward",
        2,
        64,
        c.gradients.data(),
        c.weight.data(),
        c.winners.data(),
        c.count(),
        static_cast<int>(pixels),
        static_cast<int>(features),
        reinterpret_cast<cifar::Bf16*>(dx.data()));

    Numbers expected(c.weight.size());
    Numbers expected_dx(c.x.size());
    for (std::size_t n = 0; n < c.labels.size(); ++n)
        for (std::size_t k = 0; k < cifar::class_count; ++k)
            for (std::size_t f = 0; f < features; ++f) {
                const auto g = static_cast<double>(c.gradients[n * cifar::class_count + k]);
                const auto winner = c.winners[n * features + f];
                expected[k * features + f] += g * static_cast<double>(c.maxima[n * features + f]);
                expected_dx[(n * pixels + winner) * features + f] +=
                    g * static_cast<double>(c.weight[k * features + f]);
            }
    CHECK(apart(gradient, expected) < float_rounding);
    CHECK(apart(numbers(dx), expected_dx) < rounding);
}

TEST_CASE("the optimizer does what PyTorch's SGD with Nesterov's momentum does, when committed") {
    std::vector<float> value{1, -2, 3};
    std::vector<float> other{5};
    const std::vector<float> gradient{0.5F, 0.25F, -1};
    const std::vector<float> other_gradient{1};
    std::vector<float> velocity{0.1F, 0, -0.2F};
    std::vector<float> other_velocity{0};
    std::vector<cifar::Bf16> copy(3);
    const cifar::Slot slots[] = {
        {value.data(), gradient.data(), velocity.data(), copy.data(), 3, 0.01F},
        {other.data(), other_gradient.data(), other_velocity.data(), nullptr, 1, 0}};
    const auto update = [&](const unsigned* committed) {
        REQUIRE(
            cuda_on_cpu::launch("cifar_update", {{1, 2}, {2}}, &slots[0], 0.1F, 0.9F, committed));
    };

    const unsigned no = 0;
    update(&no);
    CHECK(value == std::vector<float>{1, -2, 3});
    CHECK(velocity == std::vector<float>{0.1F, 0, -0.2F});

    const unsigned yes = 1;
    update(&yes);
    const double g = 0.5 + 0.01 * 1;
    const double v = 0.9 * 0.1 + g;
    CHECK(velocity[0] == doctest::Approx(v));
    CHECK(value[0] == doctest::Approx(1 - 0.1 * (g + 0.9 * v)));
    CHECK(value[2] == doctest::Approx(3 - 0.1 * (-0.97 + 0.9 * (0.9 * -0.2 - 0.97))));
    CHECK(other[0] == doctest::Approx(5 - 0.1 * 1.9));
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(copy[i] == narrowed(static_cast<double>(value[i])));

    value = {8, 9, 10};
    REQUIRE(cuda_on_cpu::launch("cifar_refresh_copies", {{1, 2}, {2}}, &slots[0]));
    CHECK(widened(copy[2]) == 10);
}

TEST_CASE("bfloat16 is rounded to nearest, ties to even; infinities and NaN stay what they are") {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> value{
        1.0F,
        1.00390625F,  // between 1 and 1.0078125: even is 1
        1.01171875F,  // between 1.0078125 and 1.015625: even is 1.015625
        -1.003907F,   // just beyond the tie
        3.4e38F,      // rounds to infinity
        infinity,
        -infinity,
        1e-40F,
        0.0F,
        std::nanf("")};
    std::vector<cifar::Bf16> copy(value.size());
    const cifar::Slot slot{value.data(), nullptr, nullptr, copy.data(), value.size(), 0};
    REQUIRE(cuda_on_cpu::launch("cifar_refresh_copies", {{1, 1}, {32}}, &slot));

    CHECK(widened(copy[0]) == 1);
    CHECK(widened(copy[1]) == 1);
    CHECK(widened(copy[2]) == 1.015625);
    CHECK(widened(copy[3]) == -1.0078125);
    CHECK(std::isinf(widened(copy[4])));
    CHECK(widened(copy[5]) == static_cast<double>(infinity));
    CHECK(widened(copy[6]) == static_cast<double>(-infinity));
    CHECK(widened(copy[7]) == doctest::Approx(1e-40).epsilon(0.01));
    CHECK(widened(copy[8]) == 0);
    CHECK(std::isnan(widened(copy[9])));

    std::vector<float> wide(copy.size());
    run<cifar::Widen>(
        "cifar_widen", 1, 32, copy.data(), static_cast<int>(copy.size()), wide.data());
    CHECK(wide[2] == 1.015625F);
    CHECK(std::isnan(wide[9]));
}
