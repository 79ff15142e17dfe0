// SPDX-License-Identifier: Apache-2.0
#include "mlp.hpp"

#include "digit_painter.hpp"
#include "random.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

namespace mnist {
namespace {

using Weights = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using Bias = Eigen::Map<Eigen::VectorXf>;
/// One column for each sample.
using Batch = Eigen::MatrixXf;

constexpr std::size_t hidden_units = 128;
constexpr std::size_t digit_count = 10;
constexpr float drop_share = 0.2F;
// The usual mean and deviation of MNIST's pixels.
constexpr float pixel_mean = 0.1307F;
constexpr float pixel_deviation = 0.3081F;
constexpr std::size_t evaluation_batch = 500;

// The order of `parameters()`.
enum Index : std::size_t { hidden1, hidden1_bias, hidden2, hidden2_bias, output };

Eigen::Index as_index(std::size_t size) {
    return static_cast<Eigen::Index>(size);
}

Weights weights(const std::vector<float*>& memory, std::size_t index) {
    const auto& shape = Mlp::parameters()[index];
    return {memory[index], as_index(shape.rows), as_index(shape.columns)};
}

Bias bias(const std::vector<float*>& memory, std::size_t index) {
    return {memory[index], as_index(Mlp::parameters()[index].rows)};
}

void load_image(const std::uint8_t* image, Eigen::Ref<Eigen::VectorXf> column) {
    for (Eigen::Index i = 0; i < column.size(); ++i)
        column[i] = (static_cast<float>(image[i]) / 255.0F - pixel_mean) / pixel_deviation;
}

void forward(const Weights& weight, const Bias& offset, const Batch& input, Batch& result) {
    result.noalias() = weight * input;
    result.colwise() += offset;
    result = (result.array() <= 0.0F).select(0.0F, result);  // NaN stays
}

/// Sums sample after sample, so that the result does not depend on the width of vector registers.
void sum_columns(const Batch& delta, Bias sum) {
    sum.setZero();
    for (Eigen::Index column = 0; column < delta.cols(); ++column)
        sum += delta.col(column);
}

/// 0 for a dropped unit, else the factor that compensates for the dropped ones. Element numbers
/// continue across batches, so that an element's mask does not depend on the batch size.
void fill_mask(Batch& mask, const DropoutKey& key, std::uint64_t layer) {
    const auto seed = seed_of({key.seed, key.step, key.rank, layer});
    constexpr auto dropped_below = static_cast<std::uint32_t>(drop_share * 0x1p32);
    float* value = mask.data();
    const auto count = static_cast<std::size_t>(mask.size());
    for (std::size_t i = 0; i < count; i += 2) {
        const auto bits = mixed(seed + i);
        value[i] = static_cast<std::uint32_t>(bits) < dropped_below ? 0 : 1 / (1 - drop_share);
        if (i + 1 < count) value[i + 1] = bits >> 32U < dropped_below ? 0 : 1 / (1 - drop_share);
    }
}

std::uint8_t largest(const float* scores) {
    return static_cast<std::uint8_t>(std::max_element(scores, scores + digit_count) - scores);
}

/// Turns a sample's scores into the gradient of its cross entropy; returns the loss.
double softmax_loss(float* scores, std::uint8_t label) {
    const float top = *std::max_element(scores, scores + digit_count);
    float sum = 0;
    for (std::size_t i = 0; i < digit_count; ++i)
        sum += std::exp(scores[i] - top);
    const double loss = std::log(static_cast<double>(sum)) - (scores[label] - top);
    for (std::size_t i = 0; i < digit_count; ++i)
        scores[i] = std::exp(scores[i] - top) / sum;
    scores[label] -= 1;
    return loss;
}

}  // namespace

/// Memory of one pass, reused for every batch.
struct Mlp::Layers {
    std::vector<float*> values;
    std::vector<float*> gradients;
    Batch input, first, second, scores;
    Batch first_mask, second_mask;
    Batch first_delta, second_delta;

    void resize(std::size_t batch_size) {
        const auto columns = as_index(batch_size);
        input.resize(as_index(image_pixels), columns);
        for (auto* hidden : {&first_mask, &second_mask})
            hidden->resize(as_index(hidden_units), columns);
    }

    void forward_first() {
        forward(weights(values, hidden1), bias(values, hidden1_bias), input, first);
    }
    void forward_second() {
        forward(weights(values, hidden2), bias(values, hidden2_bias), first, second);
    }
    void forward_output() { scores.noalias() = weights(values, output) * second; }

    void backward(const GradientDone& done) {
        weights(gradients, output).noalias() = scores * second.transpose();
        done(output);
        second_delta.noalias() = weights(values, output).transpose() * scores;
        through_hidden(second_delta, second, second_mask);
        sum_columns(second_delta, bias(gradients, hidden2_bias));
        done(hidden2_bias);
        weights(gradients, hidden2).noalias() = second_delta * first.transpose();
        done(hidden2);
        first_delta.noalias() = weights(values, hidden2).transpose() * second_delta;
        through_hidden(first_delta, first, first_mask);
        sum_columns(first_delta, bias(gradients, hidden1_bias));
        done(hidden1_bias);
        weights(gradients, hidden1).noalias() = first_delta * input.transpose();
        done(hidden1);
    }

    /// A unit whose output was zero, dropped or negative, passes no gradient back.
    static void through_hidden(Batch& delta, const Batch& activation, const Batch& mask) {
        delta = (activation.array() > 0.0F).select(delta.array() * mask.array(), 0.0F);
    }
};

const std::vector<ParameterShape>& Mlp::parameters() {
    static const std::vector<ParameterShape> shapes{
        {"hidden1.weight", hidden_units, image_pixels},
        {"hidden1.bias", hidden_units},
        {"hidden2.weight", hidden_units, hidden_units},
        {"hidden2.bias", hidden_units},
        {"output.weight", digit_count, hidden_units}};
    return shapes;
}

Mlp::Mlp(std::vector<float*> values, std::vector<float*> gradients)
    : layers_(std::make_unique<Layers>()) {
    layers_->values = std::move(values);
    layers_->gradients = std::move(gradients);
}

Mlp::Mlp(Mlp&&) noexcept = default;
Mlp::~Mlp() = default;

void Mlp::initialise(std::uint64_t seed) {
    const auto& shapes = parameters();
    std::size_t inputs = 0;
    for (std::size_t index = 0; index < shapes.size(); ++index) {
        if (shapes[index].columns > 1)
            inputs = shapes[index].columns;  // a bias follows its weights
        const double bound = 1 / std::sqrt(static_cast<double>(inputs));
        Random random{seed_of({seed, index})};
        for (std::size_t i = 0; i < shapes[index].count(); ++i)
            layers_->values[index][i] = static_cast<float>(random.uniform(-bound, bound));
    }
}

BatchResult Mlp::train(
    const Dataset& data,
    const std::uint64_t* batch,
    std::size_t batch_size,
    const DropoutKey& key,
    const GradientDone& done) {
    auto& layers = *layers_;
    layers.resize(batch_size);
    for (std::size_t i = 0; i < batch_size; ++i)
        load_image(data.image(batch[i]), layers.input.col(as_index(i)));
    fill_mask(layers.first_mask, key, 1);
    fill_mask(layers.second_mask, key, 2);

    layers.forward_first();
    layers.first.array() *= layers.first_mask.array();
    layers.forward_second();
    layers.second.array() *= layers.second_mask.array();
    layers.forward_output();

    BatchResult result;
    for (std::size_t i = 0; i < batch_size; ++i) {
        float* scores = layers.scores.col(as_index(i)).data();
        const auto label = data.labels[batch[i]];
        if (largest(scores) == label) ++result.correct;
        result.loss += softmax_loss(scores, label);
    }
    layers.scores /= static_cast<float>(batch_size);
    layers.backward(done);
    return result;
}

std::int64_t Mlp::count_correct(const Dataset& data, std::size_t first, std::size_t stride) {
    auto& layers = *layers_;
    std::int64_t correct = 0;
    std::vector<std::size_t> batch;
    for (auto next = first; next < data.size();) {
        batch.clear();
        for (; next < data.size() && batch.size() < evaluation_batch; next += stride)
            batch.push_back(next);
        layers.resize(batch.size());
        for (std::size_t i = 0; i < batch.size(); ++i)
            load_image(data.image(batch[i]), layers.input.col(as_index(i)));
        layers.forward_first();
        layers.forward_second();
        layers.forward_output();
        for (std::size_t i = 0; i < batch.size(); ++i)
            if (largest(layers.scores.col(as_index(i)).data()) == data.labels[batch[i]]) ++correct;
    }
    return correct;
}

}  // namespace mnist
