// SPDX-License-Identifier: Apache-2.0
#include "tests/examples/cifar/reference_net.hpp"

#include "examples/cifar/image_file.hpp"
#include "worker_sdk/include/ddprun/float16.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace reference {
namespace {

constexpr double epsilon = 1e-5;

/// Calls `visit(x's index, weight's index, y's index)` for each product of a convolution.
template <class Visit>
void each_product(const ConvShape& shape, const Visit& visit) {
    const auto side = static_cast<std::ptrdiff_t>(shape.side);
    for (std::size_t n = 0; n < shape.count; ++n)
        for (std::ptrdiff_t row = 0; row < side; ++row)
            for (std::ptrdiff_t column = 0; column < side; ++column)
                for (std::ptrdiff_t dy = -1; dy <= 1; ++dy)
                    for (std::ptrdiff_t dx = -1; dx <= 1; ++dx) {
                        const auto from_row = row + dy;
                        const auto from_column = column + dx;
                        if (from_row < 0 || from_row >= side) continue;
                        if (from_column < 0 || from_column >= side) continue;
                        const auto pixel = [&](std::ptrdiff_t r, std::ptrdiff_t c) {
                            return n * shape.side * shape.side +
                                   static_cast<std::size_t>(r * side + c);
                        };
                        const auto tap = static_cast<std::size_t>((dy + 1) * 3 + dx + 1);
                        const auto x = pixel(from_row, from_column) * shape.inputs;
                        const auto y = pixel(row, column) * shape.outputs;
                        for (std::size_t o = 0; o < shape.outputs; ++o)
                            for (std::size_t i = 0; i < shape.inputs; ++i)
                                visit(x + i, (o * 9 + tap) * shape.inputs + i, y + o);
                    }
}

std::size_t pixels(const ConvShape& shape) {
    return shape.count * shape.side * shape.side;
}

Numbers kept_all(Numbers numbers, const Kept& kept) {
    for (auto& number : numbers)
        number = kept(number);
    return numbers;
}

/// The index of the largest of 2 by 2, the first of equals, or none when all are at most 0.
template <class Visit>
void each_window(
    const Numbers& shifted,
    std::size_t count,
    std::size_t side,
    std::size_t channels,
    const Visit& visit) {
    std::size_t pooled = 0;
    for (std::size_t line = 0; line < count * side; line += 2)
        for (std::size_t column = 0; column < side; column += 2)
            for (std::size_t c = 0; c < channels; ++c, ++pooled) {
                const auto at = [&](std::size_t dy, std::size_t dx) {
                    return ((line + dy) * side + column + dx) * channels + c;
                };
                auto best = at(0, 0);
                for (const auto other : {at(0, 1), at(1, 0), at(1, 1)})
                    if (shifted[other] > shifted[best]) best = other;
                visit(pooled, best, shifted[best] > 0);
            }
}

/// The values that a unit keeps between the passes.
struct Unit {
    Numbers input, convolved, output;
};

}  // namespace

double exact(double value) {
    return value;
}

double as_bfloat16(double value) {
    return static_cast<double>(static_cast<float>(ddprun::BFloat16{static_cast<float>(value)}));
}

Numbers convolve(const ConvShape& shape, const Numbers& x, const Numbers& weight) {
    Numbers y(pixels(shape) * shape.outputs);
    each_product(shape, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
        y[yi] += x[xi] * weight[wi];
    });
    return y;
}

Numbers weight_gradient(const ConvShape& shape, const Numbers& x, const Numbers& dy) {
    Numbers gradient(shape.outputs * 9 * shape.inputs);
    each_product(shape, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
        gradient[wi] += x[xi] * dy[yi];
    });
    return gradient;
}

Numbers input_gradient(const ConvShape& shape, const Numbers& weight, const Numbers& dy) {
    Numbers gradient(pixels(shape) * shape.inputs);
    each_product(shape, [&](std::size_t xi, std::size_t wi, std::size_t yi) {
        gradient[xi] += weight[wi] * dy[yi];
    });
    return gradient;
}

Norm norm_forward(const Numbers& x, const Numbers& weight, const Numbers& bias) {
    const auto channels = weight.size();
    const auto rows = static_cast<double>(x.size() / channels);
    Norm norm;
    norm.mean.resize(channels);
    norm.variance.resize(channels);
    for (std::size_t i = 0; i < x.size(); ++i)
        norm.mean[i % channels] += x[i] / rows;
    for (std::size_t i = 0; i < x.size(); ++i)
        norm.variance[i % channels] += std::pow(x[i] - norm.mean[i % channels], 2) / rows;
    for (const auto variance : norm.variance)
        norm.inverse.push_back(1 / std::sqrt(variance + epsilon));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto c = i % channels;
        norm.normalised.push_back((x[i] - norm.mean[c]) * norm.inverse[c]);
        norm.shifted.push_back(norm.normalised[i] * weight[c] + bias[c]);
    }
    return norm;
}

NormGradient norm_backward(
    const Norm& norm, const Numbers& weight, const Numbers& shifted_gradient) {
    const auto channels = weight.size();
    const auto& g = shifted_gradient;
    const auto rows = static_cast<double>(g.size() / channels);
    NormGradient result{Numbers(g.size()), Numbers(channels), Numbers(channels)};
    for (std::size_t i = 0; i < g.size(); ++i) {
        result.bias[i % channels] += g[i];
        result.weight[i % channels] += g[i] * norm.normalised[i];
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
        const auto c = i % channels;
        result.x[i] = weight[c] * norm.inverse[c] *
                      (g[i] - result.bias[c] / rows - norm.normalised[i] * result.weight[c] / rows);
    }
    return result;
}

Numbers relu_pool(
    const Numbers& shifted, std::size_t count, std::size_t side, std::size_t channels) {
    Numbers y(shifted.size() / 4);
    each_window(
        shifted, count, side, channels, [&](std::size_t pooled, std::size_t best, bool passes) {
            y[pooled] = passes ? shifted[best] : 0;
        });
    return y;
}

Numbers relu_pool_backward(
    const Numbers& shifted,
    const Numbers& dy,
    std::size_t count,
    std::size_t side,
    std::size_t channels) {
    Numbers gradient(shifted.size());
    each_window(
        shifted, count, side, channels, [&](std::size_t pooled, std::size_t best, bool passes) {
            if (passes) gradient[best] = dy[pooled];
        });
    return gradient;
}

namespace {

/// The largest of each channel, the linear layer and the loss: returns the gradient by x.
Numbers head(
    const Numbers& x,
    const Numbers& weight,
    const std::vector<std::uint8_t>& labels,
    const Kept& kept,
    Pass& pass,
    Numbers& linear_gradient) {
    const auto channels = weight.size() / cifar::class_count;
    const auto count = labels.size();
    const auto picture_size = x.size() / count;
    Numbers gradient(x.size());
    linear_gradient.assign(weight.size(), 0);
    for (std::size_t n = 0; n < count; ++n) {
        std::vector<std::size_t> winners;
        for (std::size_t c = 0; c < channels; ++c) {
            auto best = n * picture_size + c;
            for (auto i = best; i < (n + 1) * picture_size; i += channels)
                if (x[i] > x[best]) best = i;
            winners.push_back(best);
        }
        Numbers scores;
        for (std::size_t k = 0; k < cifar::class_count; ++k) {
            double score = 0;
            for (std::size_t c = 0; c < channels; ++c)
                score += weight[k * channels + c] * x[winners[c]];
            scores.push_back(score * static_cast<double>(cifar::score_scale));
        }
        double sum = 0;
        for (const auto score : scores)
            sum += std::exp(score);
        pass.loss += (std::log(sum) - scores[labels[n]]) / static_cast<double>(count);
        const auto top = std::max_element(scores.begin(), scores.end()) - scores.begin();
        if (top == labels[n]) ++pass.correct;
        for (std::size_t k = 0; k < cifar::class_count; ++k) {
            const double g = (std::exp(scores[k]) / sum - (k == labels[n] ? 1 : 0)) *
                             static_cast<double>(cifar::score_scale) / static_cast<double>(count);
            for (std::size_t c = 0; c < channels; ++c) {
                linear_gradient[k * channels + c] += g * x[winners[c]];
                gradient[winners[c]] += g * weight[k * channels + c];
            }
        }
    }
    return kept_all(std::move(gradient), kept);
}

}  // namespace

Pass train(
    const cifar::Architecture& architecture,
    const std::vector<Numbers>& parameters,
    const Numbers& pictures,
    const std::vector<std::uint8_t>& labels,
    const Kept& kept) {
    const auto& units = architecture.units;
    const auto count = labels.size();
    const auto shape_of = [&](std::size_t u) {
        return ConvShape{count, units[u].side, units[u].inputs, units[u].outputs};
    };
    const auto filter = [&](std::size_t u) {
        return kept_all(parameters[cifar::weight_of(u)], kept);
    };

    Pass pass;
    std::vector<Unit> kept_units(units.size());
    for (std::size_t u = 0; u < units.size(); ++u) {
        auto& unit = kept_units[u];
        unit.input = u == 0 ? pictures : kept_units[u - 1].output;
        unit.convolved = kept_all(convolve(shape_of(u), unit.input, filter(u)), kept);
        pass.norms.push_back(norm_forward(
            unit.convolved,
            parameters[cifar::norm_weight_of(u)],
            parameters[cifar::norm_bias_of(u)]));
        const auto& shifted = pass.norms.back().shifted;
        if (units[u].pools) {
            unit.output = relu_pool(shifted, count, units[u].side, units[u].outputs);
        } else {
            for (std::size_t i = 0; i < shifted.size(); ++i)
                unit.output.push_back(
                    std::max(shifted[i], 0.0) +
                    (units[u].adds ? kept_units[*units[u].adds].output[i] : 0));
        }
        unit.output = kept_all(std::move(unit.output), kept);
    }

    pass.gradients.resize(parameters.size());
    const auto linear = cifar::linear_of(architecture);
    std::vector<Numbers> output_gradients(units.size());
    output_gradients.back() = head(
        kept_units.back().output, parameters[linear], labels, kept, pass, pass.gradients[linear]);
    for (auto u = units.size(); u-- > 0;) {
        const auto& unit = kept_units[u];
        const auto& norm = pass.norms[u];
        const auto& dy = output_gradients[u];
        Numbers shifted_gradient;
        if (units[u].pools)
            shifted_gradient =
                relu_pool_backward(norm.shifted, dy, count, units[u].side, units[u].outputs);
        else
            for (std::size_t i = 0; i < dy.size(); ++i)
                shifted_gradient.push_back(norm.shifted[i] > 0 ? dy[i] : 0);
        auto gradient = norm_backward(norm, parameters[cifar::norm_weight_of(u)], shifted_gradient);
        pass.gradients[cifar::norm_weight_of(u)] = std::move(gradient.weight);
        pass.gradients[cifar::norm_bias_of(u)] = std::move(gradient.bias);
        const auto convolved_gradient = kept_all(std::move(gradient.x), kept);
        pass.gradients[cifar::weight_of(u)] =
            kept_all(weight_gradient(shape_of(u), unit.input, convolved_gradient), kept);
        if (units[u].adds) output_gradients[*units[u].adds] = dy;
        if (u == 0) continue;
        auto below = input_gradient(shape_of(u), filter(u), convolved_gradient);
        auto& sum = output_gradients[u - 1];
        for (std::size_t i = 0; i < sum.size(); ++i)
            below[i] += sum[i];
        sum = kept_all(std::move(below), kept);
    }
    return pass;
}

}  // namespace reference
