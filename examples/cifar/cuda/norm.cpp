// SPDX-License-Identifier: Apache-2.0
#include "norm.hpp"

#include <algorithm>
#include <utility>

extern "C" const unsigned char norm_fatbin[];

namespace cifar {
namespace {

// Enough to occupy today's largest GPUs; more blocks would make the final summation slower.
constexpr unsigned max_summing_blocks = 264;
constexpr unsigned max_blocks = 2112;

int number(std::size_t size) {
    return static_cast<int>(size);
}

int pixels_of(std::size_t side, std::size_t count) {
    return number(count * side * side);
}

/// The grid determines the order of summation, so it depends on sizes alone.
gpu::Grid grid_over(int rows, std::size_t channels, unsigned most) {
    const auto rows_at_once = static_cast<std::size_t>(norm_threads) / (channels / 8);
    const auto needed = (static_cast<std::size_t>(rows) + rows_at_once - 1) / rows_at_once;
    return {static_cast<unsigned>(std::min<std::size_t>(needed, most)), norm_threads};
}

}  // namespace

NormWorkshop::NormWorkshop(const gpu::Stream& stream, std::size_t max_channels)
    : stream_(stream),
      module_(norm_fatbin),
      sums_kernel_(module_.get<NormSums>("cifar_norm_sums")),
      fold_kernel_(module_.get<NormFold>("cifar_norm_fold")),
      finish_(module_.get<NormFinish>("cifar_norm_finish")),
      finish_running_(module_.get<NormFinishRunning>("cifar_norm_finish_running")),
      apply_(module_.get<NormApply>("cifar_norm_apply")),
      apply_pool_(module_.get<NormApplyPool>("cifar_norm_apply_pool")),
      backward_sums_(module_.get<NormBackwardSums>("cifar_norm_backward_sums")),
      backward_sums_pool_(module_.get<NormBackwardSumsPool>("cifar_norm_backward_sums_pool")),
      gradients_(module_.get<NormGradients>("cifar_norm_gradients")),
      backward_(module_.get<NormBackward>("cifar_norm_backward")),
      backward_pool_(module_.get<NormBackwardPool>("cifar_norm_backward_pool")),
      partial_(max_summing_blocks * 2 * max_channels),
      sums_(2 * max_channels) {}

void NormWorkshop::synchronise(int rank_count, GpuNetwork::SumOverRanks sum) {
    rank_count_ = rank_count;
    sum_ = std::move(sum);
}

void NormWorkshop::fold(int channels, unsigned blocks) {
    fold_kernel_(
        stream_,
        gpu::Grid{
            static_cast<unsigned>((2 * channels + fold_outputs - 1) / fold_outputs),
            fold_outputs * fold_slices},
        partial_.data(),
        static_cast<int>(blocks),
        channels,
        sums_.data());
}

void NormWorkshop::sum_over_ranks(int channels) {
    if (rank_count_ > 1) sum_(sums_.data(), 2 * static_cast<std::size_t>(channels));
}

void NormWorkshop::apply(
    const ConvUnit& unit,
    std::size_t count,
    const Eight* x,
    const Eight* added,
    const float* kept,
    Eight* y) {
    const int rows = pixels_of(unit.output_side(), count);
    const int channels = number(unit.outputs);
    const auto grid = grid_over(rows, unit.outputs, max_blocks);
    if (unit.pools)
        apply_pool_(stream_, grid, x, kept, rows, number(unit.output_side()), channels, y);
    else
        apply_(stream_, grid, x, kept, added, rows, channels, y);
}

void NormWorkshop::forward(
    const ConvUnit& unit,
    std::size_t count,
    const Eight* x,
    const Eight* added,
    const NormMemory& memory,
    float* kept,
    Eight* y) {
    const int rows = pixels_of(unit.side, count);
    const int channels = number(unit.outputs);
    const auto grid = grid_over(rows, unit.outputs, max_summing_blocks);
    sums_kernel_(stream_, grid, x, rows, channels, partial_.data());
    fold(channels, grid.blocks);
    sum_over_ranks(channels);
    finish_(
        stream_,
        gpu::Grid::for_each(unit.outputs, 64),
        sums_.data(),
        static_cast<float>(rows) * static_cast<float>(rank_count_),
        channels,
        memory.weight,
        memory.bias,
        kept,
        memory.running);
    apply(unit, count, x, added, kept, y);
}

void NormWorkshop::evaluate(
    const ConvUnit& unit,
    std::size_t count,
    const Eight* x,
    const Eight* added,
    const NormMemory& memory,
    float* kept,
    Eight* y) {
    finish_running_(
        stream_,
        gpu::Grid::for_each(unit.outputs, 64),
        memory.running,
        number(unit.outputs),
        memory.weight,
        memory.bias,
        kept);
    apply(unit, count, x, added, kept, y);
}

void NormWorkshop::sum_gradients(
    const ConvUnit& unit,
    std::size_t count,
    const Eight* x,
    const Eight* dy,
    const NormMemory& memory,
    const float* kept) {
    const int rows = pixels_of(unit.output_side(), count);
    const int channels = number(unit.outputs);
    const auto grid = grid_over(rows, unit.outputs, max_summing_blocks);
    if (unit.pools)
        backward_sums_pool_(
            stream_,
            grid,
            x,
            dy,
            kept,
            rows,
            number(unit.output_side()),
            channels,
            partial_.data());
    else
        backward_sums_(stream_, grid, x, dy, kept, rows, channels, partial_.data());
    fold(channels, grid.blocks);
    // The gradients of this rank alone: the reducer averages them.
    gradients_(
        stream_,
        gpu::Grid::for_each(unit.outputs, 64),
        sums_.data(),
        channels,
        memory.weight_gradient,
        memory.bias_gradient);
}

void NormWorkshop::finish_backward(
    const ConvUnit& unit,
    std::size_t count,
    const Eight* x,
    const Eight* dy,
    const float* kept,
    Eight* dx) {
    const int rows = pixels_of(unit.output_side(), count);
    const int channels = number(unit.outputs);
    const auto grid = grid_over(rows, unit.outputs, max_blocks);
    sum_over_ranks(channels);
    const float values = static_cast<float>(pixels_of(unit.side, count));
    const float inverse_count = 1 / (values * static_cast<float>(rank_count_));
    if (unit.pools)
        backward_pool_(
            stream_,
            grid,
            x,
            dy,
            kept,
            sums_.data(),
            inverse_count,
            rows,
            number(unit.output_side()),
            channels,
            dx);
    else
        backward_(stream_, grid, x, dy, kept, sums_.data(), inverse_count, rows, channels, dx);
}

}  // namespace cifar
