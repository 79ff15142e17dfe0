// SPDX-License-Identifier: Apache-2.0
#include "weights.hpp"

extern "C" const unsigned char update_fatbin[];

namespace cifar {
namespace {

constexpr float momentum = 0.9F;
constexpr float weight_decay = 5e-4F;
constexpr unsigned blocks_of_parameter = 256;
constexpr unsigned threads = 256;

/// cuDNN requires filters to begin at such addresses.
constexpr std::size_t aligned_count(std::size_t count) {
    constexpr std::size_t step = 128;
    return (count + step - 1) / step * step;
}

std::size_t room_for(const Architecture& architecture) {
    std::size_t count = 0;
    for (const auto& shape : architecture.parameters)
        count += aligned_count(shape.count());
    return count;
}

}  // namespace

Weights::Weights(const gpu::Stream& stream, const Architecture& architecture)
    : stream_(stream),
      architecture_(architecture),
      module_(update_fatbin),
      update_(module_.get<Update>("cifar_update")),
      refresh_(module_.get<RefreshCopies>("cifar_refresh_copies")),
      widen_(module_.get<Widen>("cifar_widen")),
      velocities_(room_for(architecture)),
      copies_(room_for(architecture)),
      table_(architecture.parameters.size()) {
    velocities_.zero(stream);
    std::size_t at = 0;
    for (const auto& shape : architecture.parameters) {
        const bool is_filter = shape.shape.size() == 4;
        slots_.push_back(
            {nullptr,
             nullptr,
             velocities_.data() + at,
             is_filter ? copies_.data() + at : nullptr,
             shape.count(),
             shape.decays ? weight_decay : 0});
        at += aligned_count(shape.count());
    }
}

void Weights::place(const std::vector<float*>& values, const std::vector<float*>& gradients) {
    gradients_ = gradients;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].value = values[i];
        slots_[i].gradient = gradients[i];
    }
    table_.upload(slots_.data(), slots_.size(), stream_);
    stream_.wait();
}

gpu::Grid Weights::grid() const {
    return {blocks_of_parameter, threads, static_cast<unsigned>(slots_.size())};
}

void Weights::widen_gradient(std::size_t parameter, const Bf16* from) {
    const auto count = architecture_.parameters[parameter].count();
    widen_(
        stream_, gpu::Grid::for_each(count), from, static_cast<int>(count), gradients_[parameter]);
}

void Weights::update(float rate, const std::uint32_t* committed) {
    update_(stream_, grid(), table_.data(), rate, momentum, committed);
}

void Weights::refresh() {
    refresh_(stream_, grid(), table_.data());
}

}  // namespace cifar
