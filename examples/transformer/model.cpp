// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

namespace transformer {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Column = Eigen::VectorXf;
using View = Eigen::Map<Rows>;
using ConstView = Eigen::Map<const Rows>;

constexpr float smallest_variance = 1e-5F;
constexpr float first_deviation = 0.02F;
/// sqrt(2 / pi) and the cubic term of GELU's usual approximation by tanh.
constexpr float gelu_slope = 0.7978845608F;
constexpr float gelu_cubic = 0.044715F;

Eigen::Index index(std::size_t number) {
    return static_cast<Eigen::Index>(number);
}

/// The indices of the parameters in their list.
constexpr std::size_t embedding = 0;
constexpr std::size_t positions = 1;
constexpr std::size_t first_of_layers = 2;
enum InLayer : std::size_t {
    norm1_gain,
    norm1_bias,
    qkv_weight,
    qkv_bias,
    merge_weight,
    merge_bias,
    norm2_gain,
    norm2_bias,
    widen_weight,
    widen_bias,
    narrow_weight,
    narrow_bias,
    per_layer
};

std::size_t place(std::size_t layer, InLayer what) {
    return first_of_layers + layer * per_layer + what;
}

struct Normalised {
    Rows scaled;
    Column inverse_deviation;
    Rows out;
};

Normalised normalise(const Rows& in, const ConstView& gain, const ConstView& bias) {
    Normalised done;
    done.scaled = in.colwise() - in.rowwise().mean();
    done.inverse_deviation =
        (done.scaled.array().square().rowwise().mean() + smallest_variance).rsqrt();
    done.scaled.array().colwise() *= done.inverse_deviation.array();
    done.out =
        (done.scaled.array().rowwise() * gain.row(0).array()).rowwise() + bias.row(0).array();
    return done;
}

Rows through_normalise(
    const Normalised& done, const Rows& d_out, const ConstView& gain, View d_gain, View d_bias) {
    d_gain.row(0) += (d_out.array() * done.scaled.array()).colwise().sum().matrix();
    d_bias.row(0) += d_out.colwise().sum();
    const Rows d_scaled = d_out.array().rowwise() * gain.row(0).array();
    const Column mean = d_scaled.rowwise().mean();
    const Column along = (d_scaled.array() * done.scaled.array()).rowwise().mean();
    Rows d_in = d_scaled.colwise() - mean;
    d_in.array() -= done.scaled.array().colwise() * along.array();
    d_in.array().colwise() *= done.inverse_deviation.array();
    return d_in;
}

Rows linear(const Rows& in, const ConstView& weight, const ConstView& bias) {
    Rows out = in * weight;
    out.rowwise() += bias.row(0);
    return out;
}

Rows through_linear(
    const Rows& in, const Rows& d_out, const ConstView& weight, View d_weight, View d_bias) {
    d_weight.noalias() += in.transpose() * d_out;
    d_bias.row(0) += d_out.colwise().sum();
    return d_out * weight.transpose();
}

Rows gelu(const Rows& in) {
    return in.unaryExpr([](float x) {
        return 0.5F * x * (1 + std::tanh(gelu_slope * (x + gelu_cubic * x * x * x)));
    });
}

Rows through_gelu(const Rows& in, const Rows& d_out) {
    return d_out.binaryExpr(in, [](float d, float x) {
        const float t = std::tanh(gelu_slope * (x + gelu_cubic * x * x * x));
        const float slope = gelu_slope * (1 + 3 * gelu_cubic * x * x);
        return d * (0.5F * (1 + t) + 0.5F * x * (1 - t * t) * slope);
    });
}

/// The position of the numbers of one head of one window.
struct Head {
    Eigen::Index row, column, length, width;

    template <class Matrix>
    auto in(Matrix& matrix, Eigen::Index part = 0) const {
        return matrix.block(row, part + column, length, width);
    }
};

/// Turns row i of `scores` into probabilities of the tokens up to i.
void look_back(Rows& scores) {
    for (Eigen::Index i = 0; i < scores.rows(); ++i) {
        auto seen = scores.row(i).head(i + 1);
        seen = (seen.array() - seen.maxCoeff()).exp();
        seen /= seen.sum();
        scores.row(i).tail(scores.cols() - i - 1).setZero();
    }
}

}  // namespace

std::vector<ddprun::ParameterSpec> parameters_of(const Shape& shape) {
    const auto width = shape.width;
    std::vector<ddprun::ParameterSpec> all{
        {"embedding.weight", shape.vocabulary * width}, {"positions.weight", shape.context * width}};
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
        const auto prefix = "layer" + std::to_string(layer) + ".";
        all.push_back({prefix + "norm1.gain", width});
        all.push_back({prefix + "norm1.bias", width});
        all.push_back({prefix + "qkv.weight", width * 3 * width});
        all.push_back({prefix + "qkv.bias", 3 * width});
        all.push_back({prefix + "merge.weight", width * width});
        all.push_back({prefix + "merge.bias", width});
        all.push_back({prefix + "norm2.gain", width});
        all.push_back({prefix + "norm2.bias", width});
        all.push_back({prefix + "widen.weight", width * 4 * width});
        all.push_back({prefix + "widen.bias", 4 * width});
        all.push_back({prefix + "narrow.weight", 4 * width * width});
        all.push_back({prefix + "narrow.bias", width});
    }
    all.push_back({"norm.gain", width});
    all.push_back({"norm.bias", width});
    return all;
}

/// The values that the backward pass needs from the forward pass.
struct Model::Pass {
    struct Layer {
        Normalised norm1;
        Rows qkv;
        /// The probabilities of each head of each window.
        std::vector<Rows> attention;
        Rows mixed;
        Normalised norm2;
        Rows widened;
        Rows activated;
    };
    std::vector<Layer> layers;
    Normalised norm;
    Rows logits;
};

Model::Model(const Shape& shape, std::vector<float*> parameters, std::vector<float*> gradients)
    : shape_(shape),
      parameters_(std::move(parameters)),
      gradients_(std::move(gradients)) {}

void Model::initialise(std::uint64_t seed) {
    const auto specs = parameters_of(shape_);
    std::mt19937_64 random(seed);
    // A uniform distribution with this deviation, since the normal distribution differs between
    // standard libraries.
    const float most = first_deviation * std::sqrt(3.0F);
    for (std::size_t i = 0; i < specs.size(); ++i) {
        const bool is_weight = specs[i].name.ends_with("weight");
        const float usual = specs[i].name.ends_with("gain") ? 1.0F : 0.0F;
        for (std::size_t k = 0; k < specs[i].count; ++k) {
            const auto unit = static_cast<float>(random() >> 40U) / static_cast<float>(1 << 24);
            parameters_[i][k] = is_weight ? most * (2 * unit - 1) : usual;
        }
    }
}

namespace {

/// The parameters, or the gradients, as matrices.
template <class Matrix>
struct Numbers {
    const Shape& shape;
    const std::vector<float*>& values;

    Matrix at(std::size_t place, std::size_t rows, std::size_t columns) const {
        return Matrix(values[place], index(rows), index(columns));
    }
    Matrix row(std::size_t place) const { return at(place, 1, shape.width); }
    Matrix embedded() const { return at(embedding, shape.vocabulary, shape.width); }
    Matrix positioned() const { return at(positions, shape.context, shape.width); }
    Matrix in_layer(std::size_t layer, InLayer what) const {
        const auto width = shape.width;
        const auto here = place(layer, what);
        switch (what) {
            case qkv_weight: return at(here, width, 3 * width);
            case qkv_bias: return at(here, 1, 3 * width);
            case merge_weight: return at(here, width, width);
            case widen_weight: return at(here, width, 4 * width);
            case widen_bias: return at(here, 1, 4 * width);
            case narrow_weight: return at(here, 4 * width, width);
            default: return row(here);
        }
    }
    std::size_t norm_gain() const { return first_of_layers + shape.layers * per_layer; }
};

std::vector<Head> heads_of(const Shape& shape, std::size_t windows, std::size_t length) {
    std::vector<Head> all;
    const auto width = shape.width / shape.heads;
    for (std::size_t window = 0; window < windows; ++window)
        for (std::size_t head = 0; head < shape.heads; ++head)
            all.push_back(
                {index(window * length), index(head * width), index(length), index(width)});
    return all;
}

float attention_scale(const Shape& shape) {
    return 1 / std::sqrt(static_cast<float>(shape.width / shape.heads));
}

}  // namespace

void Model::use(std::size_t first, std::size_t count) const {
    if (!before_use_) return;
    for (auto parameter = first; parameter < first + count; ++parameter)
        before_use_(parameter);
}

Model::Pass Model::forward(
    const std::vector<const std::uint8_t*>& windows, std::size_t length) const {
    const Numbers<ConstView> own{shape_, parameters_};
    const auto width = index(shape_.width);
    use(embedding, first_of_layers);
    Rows x(index(windows.size() * length), width);
    for (std::size_t window = 0; window < windows.size(); ++window)
        for (std::size_t at = 0; at < length; ++at)
            x.row(index(window * length + at)) =
                own.embedded().row(windows[window][at]) + own.positioned().row(index(at));

    const auto heads = heads_of(shape_, windows.size(), length);
    Pass pass;
    for (std::size_t number = 0; number < shape_.layers; ++number) {
        const auto of = [&](InLayer what) { return own.in_layer(number, what); };
        use(place(number, norm1_gain), per_layer);
        Pass::Layer layer;
        layer.norm1 = normalise(x, of(norm1_gain), of(norm1_bias));
        layer.qkv = linear(layer.norm1.out, of(qkv_weight), of(qkv_bias));
        layer.mixed.resize(x.rows(), width);
        for (const auto& head : heads) {
            Rows scores = head.in(layer.qkv) * head.in(layer.qkv, width).transpose();
            scores *= attention_scale(shape_);
            look_back(scores);
            head.in(layer.mixed).noalias() = scores * head.in(layer.qkv, 2 * width);
            layer.attention.push_back(std::move(scores));
        }
        x += linear(layer.mixed, of(merge_weight), of(merge_bias));
        layer.norm2 = normalise(x, of(norm2_gain), of(norm2_bias));
        layer.widened = linear(layer.norm2.out, of(widen_weight), of(widen_bias));
        layer.activated = gelu(layer.widened);
        x += linear(layer.activated, of(narrow_weight), of(narrow_bias));
        pass.layers.push_back(std::move(layer));
    }
    use(own.norm_gain(), 2);
    pass.norm = normalise(x, own.row(own.norm_gain()), own.row(own.norm_gain() + 1));
    pass.logits = pass.norm.out * own.embedded().transpose();
    return pass;
}

double Model::train(
    const std::vector<const std::uint8_t*>& windows,
    float scale,
    const std::function<void(std::size_t)>& ready) {
    const auto length = shape_.context;
    const Numbers<ConstView> own{shape_, parameters_};
    const Numbers<View> gradient{shape_, gradients_};
    const auto width = index(shape_.width);
    auto pass = forward(windows, length);

    // The logits are replaced by their gradient: the probabilities, minus one at the correct token.
    double loss = 0;
    auto& d_logits = pass.logits;
    for (Eigen::Index row = 0; row < d_logits.rows(); ++row) {
        const auto window = static_cast<std::size_t>(row) / length;
        const auto target = windows[window][static_cast<std::size_t>(row) % length + 1];
        auto values = d_logits.row(row);
        values.array() -= values.maxCoeff();
        const float sum = values.array().exp().sum();
        loss += std::log(sum) - values[target];
        values = values.array().exp() / sum;
        values[target] -= 1;
    }
    d_logits *= scale / static_cast<float>(length);
    auto d_embedded = gradient.embedded();
    d_embedded.noalias() += d_logits.transpose() * pass.norm.out;
    const auto norm_gain = own.norm_gain();
    Rows d_x = through_normalise(
        pass.norm,
        d_logits * own.embedded(),
        own.row(norm_gain),
        gradient.row(norm_gain),
        gradient.row(norm_gain + 1));
    ready(norm_gain + 1);
    ready(norm_gain);

    const auto heads = heads_of(shape_, windows.size(), length);
    for (auto number = shape_.layers; number-- > 0;) {
        const auto& layer = pass.layers[number];
        const auto of = [&](InLayer what) { return own.in_layer(number, what); };
        const auto d = [&](InLayer what) { return gradient.in_layer(number, what); };
        const auto are_ready = [&](InLayer last, InLayer first) {
            for (std::size_t what = last + 1; what-- > first;)
                ready(place(number, static_cast<InLayer>(what)));
        };
        const Rows d_activated =
            through_linear(layer.activated, d_x, of(narrow_weight), d(narrow_weight), d(narrow_bias));
        are_ready(narrow_bias, narrow_weight);
        const Rows d_norm2 = through_linear(
            layer.norm2.out,
            through_gelu(layer.widened, d_activated),
            of(widen_weight),
            d(widen_weight),
            d(widen_bias));
        are_ready(widen_bias, widen_weight);
        d_x += through_normalise(
            layer.norm2, d_norm2, of(norm2_gain), d(norm2_gain), d(norm2_bias));
        are_ready(norm2_bias, norm2_gain);

        const Rows d_mixed =
            through_linear(layer.mixed, d_x, of(merge_weight), d(merge_weight), d(merge_bias));
        are_ready(merge_bias, merge_weight);
        Rows d_qkv(layer.qkv.rows(), layer.qkv.cols());
        for (std::size_t i = 0; i < heads.size(); ++i) {
            const auto& head = heads[i];
            const auto& seen = layer.attention[i];
            const auto d_out = head.in(d_mixed);
            head.in(d_qkv, 2 * width).noalias() = seen.transpose() * d_out;
            Rows d_scores = d_out * head.in(layer.qkv, 2 * width).transpose();
            const Column along = (d_scores.array() * seen.array()).rowwise().sum();
            d_scores.colwise() -= along;
            d_scores.array() *= seen.array() * attention_scale(shape_);
            head.in(d_qkv).noalias() = d_scores * head.in(layer.qkv, width);
            head.in(d_qkv, width).noalias() = d_scores.transpose() * head.in(layer.qkv);
        }
        const Rows d_norm1 =
            through_linear(layer.norm1.out, d_qkv, of(qkv_weight), d(qkv_weight), d(qkv_bias));
        are_ready(qkv_bias, qkv_weight);
        d_x += through_normalise(
            layer.norm1, d_norm1, of(norm1_gain), d(norm1_gain), d(norm1_bias));
        are_ready(norm1_bias, norm1_gain);
    }

    auto d_positioned = gradient.positioned();
    for (std::size_t window = 0; window < windows.size(); ++window)
        for (std::size_t at = 0; at < length; ++at) {
            const auto row = d_x.row(index(window * length + at));
            d_embedded.row(windows[window][at]) += row;
            d_positioned.row(index(at)) += row;
        }
    ready(positions);
    ready(embedding);
    return loss / static_cast<double>(length);
}

std::uint8_t Model::next(const std::vector<std::uint8_t>& tokens) const {
    const auto length = std::min(tokens.size(), shape_.context);
    const auto pass = forward({tokens.data() + (tokens.size() - length)}, length);
    Eigen::Index best = 0;
    pass.logits.row(pass.logits.rows() - 1).maxCoeff(&best);
    return static_cast<std::uint8_t>(best);
}

}  // namespace transformer
