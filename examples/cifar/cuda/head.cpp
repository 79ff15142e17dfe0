// SPDX-License-Identifier: Apache-2.0
#include "head.hpp"

extern "C" const unsigned char head_fatbin[];

namespace cifar {
namespace {

constexpr unsigned warp = 32;

}  // namespace

Head::Head(const gpu::Stream& stream, std::size_t features, std::size_t side, std::size_t max_count)
    : stream_(stream),
      channels_(static_cast<int>(features)),
      pixels_(static_cast<int>(side * side)),
      module_(head_fatbin),
      global_max_(module_.get<GlobalMax>("cifar_global_max")),
      scores_(module_.get<Scores>("cifar_scores")),
      add_totals_(module_.get<AddTotals>("cifar_add_totals")),
      linear_gradient_(module_.get<LinearGradient>("cifar_linear_gradient")),
      features_backward_(module_.get<FeaturesBackward>("cifar_features_backward")),
      features_(max_count * features),
      winners_(max_count * features),
      losses_(max_count),
      is_right_(max_count),
      score_gradients_(max_count * class_count),
      totals_(2) {
    totals_.zero(stream_);
}

void Head::forward(
    const Eight* x, const float* weight, const unsigned char* labels, std::size_t count) {
    const int pictures = static_cast<int>(count);
    global_max_(
        stream_,
        gpu::Grid::for_each(count * static_cast<std::size_t>(channels_)),
        reinterpret_cast<const Bf16*>(x),
        pictures,
        pixels_,
        channels_,
        features_.data(),
        winners_.data());
    scores_(
        stream_,
        gpu::Grid{static_cast<unsigned>(count), warp},
        features_.data(),
        weight,
        labels,
        channels_,
        score_scale,
        1 / static_cast<float>(count),
        losses_.data(),
        is_right_.data(),
        score_gradients_.data());
    add_totals_(
        stream_, gpu::Grid{1, warp}, losses_.data(), is_right_.data(), pictures, totals_.data());
}

void Head::weight_gradient(std::size_t count, float* gradient) {
    linear_gradient_(
        stream_,
        gpu::Grid::for_each(class_count * static_cast<std::size_t>(channels_), 64),
        score_gradients_.data(),
        features_.data(),
        static_cast<int>(count),
        channels_,
        gradient);
}

void Head::input_gradient(const float* weight, std::size_t count, Eight* dx) {
    features_backward_(
        stream_,
        gpu::Grid::for_each(count * static_cast<std::size_t>(channels_)),
        score_gradients_.data(),
        weight,
        winners_.data(),
        static_cast<int>(count),
        pixels_,
        channels_,
        reinterpret_cast<Bf16*>(dx));
}

Totals Head::take_totals() {
    double sums[2] = {};
    totals_.download(sums, 2, stream_);
    totals_.zero(stream_);
    stream_.wait();
    return {sums[0], sums[1]};
}

}  // namespace cifar
