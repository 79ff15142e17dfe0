// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

extern "C" const unsigned char batch_fatbin[];

namespace cifar {
namespace {

std::size_t eights(std::size_t count, std::size_t side, std::size_t channels) {
    return count * side * side * channels / 8;
}

std::size_t last_side(const Architecture& architecture) {
    return architecture.units.back().output_side();
}

}  // namespace

Network::Network(const Options& options)
    : options_(options),
      architecture_(make_architecture(options.width)),
      context_(options.device),
      batch_module_(batch_fatbin),
      load_batch_(batch_module_.get<LoadBatch>("cifar_load_batch")),
      dnn_(stream_),
      norm_(stream_, architecture_.features()),
      head_(stream_, architecture_.features(), last_side(architecture_), options.batch_size),
      weights_(stream_, architecture_),
      batch_(eights(options.batch_size, image_side, input_channels)),
      labels_(options.batch_size) {
    make_layers();
}

/// Waits, so that no memory is freed while the GPU still uses it.
Network::~Network() {
    cuStreamSynchronize(stream_.get());
}

void Network::make_layers() {
    const auto& units = architecture_.units;
    std::size_t most_convolved = 0;
    std::size_t most_weights = 0;
    std::size_t channels = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
        const auto& unit = units[u];
        const auto convolved = eights(options_.batch_size, unit.side, unit.outputs);
        const auto output = eights(options_.batch_size, unit.output_side(), unit.outputs);
        Layer layer;
        layer.convolved = gpu::Buffer<Eight>{convolved};
        layer.output = gpu::Buffer<Eight>{output};
        layer.kept = gpu::Buffer<float>{norm_kept * unit.outputs};
        output_gradients_.emplace_back(unit.adds ? 0 : output);
        layer.output_gradient = output_gradients_[unit.adds.value_or(u)].data();
        layers_.push_back(std::move(layer));
        most_convolved = std::max(most_convolved, convolved);
        most_weights = std::max(most_weights, architecture_.parameters[weight_of(u)].count());
        channels += unit.outputs;
    }
    convolved_gradient_ = gpu::Buffer<Eight>{most_convolved};
    weight_gradient_ = gpu::Buffer<Bf16>{most_weights};

    running_ = gpu::Buffer<float>{2 * channels};
    std::vector<float> beginning;
    for (std::size_t u = 0; u < units.size(); ++u) {
        layers_[u].running = running_.data() + beginning.size();
        beginning.insert(beginning.end(), units[u].outputs, 0.0F);
        beginning.insert(beginning.end(), units[u].outputs, 1.0F);
    }
    set_running_averages(beginning);
}

void Network::place(const std::vector<float*>& parameters, const std::vector<float*>& gradients) {
    weights_.place(parameters, gradients);
}

void Network::synchronise_norm(int rank_count, SumOverRanks sum) {
    norm_.synchronise(rank_count, std::move(sum));
}

void Network::load(Split split, const Dataset& data) {
    auto& pictures = split == Split::train ? train_ : test_;
    pictures.count = data.size();
    pictures.pixels = gpu::Buffer<unsigned char>{data.pixels.size()};
    pictures.labels = gpu::Buffer<unsigned char>{data.labels.size()};
    pictures.pixels.upload(data.pixels.data(), data.pixels.size(), stream_);
    pictures.labels.upload(data.labels.data(), data.labels.size(), stream_);
    stream_.wait();
}

void Network::upload_order(const std::vector<std::uint64_t>& order) {
    std::vector<unsigned> narrow;
    narrow.reserve(order.size());
    for (const auto index : order)
        narrow.push_back(static_cast<unsigned>(index));
    stream_.wait();
    if (order_.count() < narrow.size()) order_ = gpu::Buffer<unsigned>{narrow.size()};
    order_.upload(narrow.data(), narrow.size(), stream_);
    stream_.wait();
}

void Network::begin_epoch(std::uint64_t epoch, const std::vector<std::uint64_t>& order) {
    for (const auto index : order)
        if (index >= train_.count) throw std::out_of_range("there is no such picture");
    epoch_ = epoch;
    upload_order(order);
    // Prepares both batch sizes of the epoch: a convolution may need more workspace, and allocating
    // it while gradients are reduced would delay the other ranks.
    for (const auto count :
         {std::min(options_.batch_size, order.size()), order.size() % options_.batch_size})
        if (count > 0) convolutions(count);
}

const std::vector<Convolution>& Network::convolutions(std::size_t count) {
    auto& all = convolutions_[count];
    for (auto u = all.size(); u < architecture_.units.size(); ++u)
        all.emplace_back(dnn_, architecture_.units[u], count);
    return all;
}

void Network::load_batch(
    const Pictures& pictures, std::size_t first, std::size_t count, Mode mode) {
    const Augmentation augmentation{
        options_.seed, epoch_, options_.cut, mode == Mode::training ? 1 : 0};
    load_batch_(
        stream_,
        gpu::Grid::for_each(count * plane_pixels),
        pictures.pixels.data(),
        pictures.labels.data(),
        order_.data() + first,
        augmentation,
        static_cast<int>(count),
        batch_.data(),
        labels_.data());
}

const Eight* Network::input_of(std::size_t unit) const {
    return unit == 0 ? batch_.data() : layers_[unit - 1].output.data();
}

NormMemory Network::norm_memory(std::size_t unit) const {
    return {
        weights_.value(norm_weight_of(unit)),
        weights_.value(norm_bias_of(unit)),
        weights_.gradient(norm_weight_of(unit)),
        weights_.gradient(norm_bias_of(unit)),
        layers_[unit].running};
}

void Network::forward(std::size_t count, Mode mode) {
    const auto& ways = convolutions(count);
    for (std::size_t u = 0; u < layers_.size(); ++u) {
        const auto& unit = architecture_.units[u];
        auto& layer = layers_[u];
        ways[u].forward(input_of(u), weights_.copy(weight_of(u)), layer.convolved.data());
        const Eight* added = unit.adds ? layers_[*unit.adds].output.data() : nullptr;
        const auto normalise =
            mode == Mode::training ? &NormWorkshop::forward : &NormWorkshop::evaluate;
        (norm_.*normalise)(
            unit,
            count,
            layer.convolved.data(),
            added,
            norm_memory(u),
            layer.kept.data(),
            layer.output.data());
    }
    head_.forward(
        layers_.back().output.data(),
        weights_.value(linear_of(architecture_)),
        labels_.data(),
        count);
}

bool Network::is_added_later(std::size_t unit) const {
    return std::any_of(
        architecture_.units.begin(), architecture_.units.end(), [&](const ConvUnit& later) {
            return later.adds == unit;
        });
}

void Network::backward(std::size_t count, const GradientDone& done) {
    const auto linear = linear_of(architecture_);
    head_.weight_gradient(count, weights_.gradient(linear));
    done(linear);
    head_.input_gradient(weights_.value(linear), count, layers_.back().output_gradient);
    for (auto u = layers_.size(); u-- > 0;)
        backward_unit(u, count, done);
}

void Network::backward_unit(std::size_t u, std::size_t count, const GradientDone& done) {
    const auto& unit = architecture_.units[u];
    const auto& way = convolutions(count)[u];
    const auto& layer = layers_[u];
    norm_.backward(
        unit,
        count,
        layer.convolved.data(),
        layer.output_gradient,
        norm_memory(u),
        layer.kept.data(),
        convolved_gradient_.data(),
        [&] {
            done(norm_bias_of(u));
            done(norm_weight_of(u));
        });
    way.weight_gradient(input_of(u), convolved_gradient_.data(), weight_gradient_.data());
    weights_.widen_gradient(weight_of(u), weight_gradient_.data());
    done(weight_of(u));
    if (u == 0) return;
    way.input_gradient(
        weights_.copy(weight_of(u)),
        convolved_gradient_.data(),
        is_added_later(u - 1),
        layers_[u - 1].output_gradient);
}

void Network::train(std::size_t first, std::size_t count, const GradientDone& done) {
    load_batch(train_, first, count, Mode::training);
    forward(count, Mode::training);
    backward(count, done);
}

void Network::update(float rate, const std::uint32_t* committed) {
    weights_.update(rate, committed);
}

Totals Network::take_totals() {
    return head_.take_totals();
}

/// Requires: the caller has taken the totals of training.
std::int64_t Network::count_correct(std::size_t first, std::size_t stride) {
    std::vector<std::uint64_t> order;
    for (auto next = first; next < test_.count; next += stride)
        order.push_back(next);
    upload_order(order);
    head_.take_totals();
    for (std::size_t next = 0; next < order.size(); next += options_.batch_size) {
        const auto count = std::min(options_.batch_size, order.size() - next);
        load_batch(test_, next, count, Mode::evaluation);
        forward(count, Mode::evaluation);
    }
    return static_cast<std::int64_t>(head_.take_totals().correct);
}

std::vector<float> Network::download(const float* from, std::size_t count) const {
    std::vector<float> values(count);
    gpu::download(values.data(), from, count * sizeof(float), stream_);
    stream_.wait();
    return values;
}

void Network::upload(float* to, const std::vector<float>& values, std::size_t count) {
    if (values.size() != count) throw std::out_of_range("so many numbers do not fit there");
    gpu::upload(to, values.data(), count * sizeof(float), stream_);
    stream_.wait();
}

std::vector<float> Network::parameter(std::size_t index) const {
    return download(weights_.value(index), architecture_.parameters[index].count());
}

std::vector<float> Network::velocity(std::size_t index) const {
    return download(weights_.velocity(index), architecture_.parameters[index].count());
}

std::vector<float> Network::running_averages() const {
    return download(running_.data(), running_.count());
}

void Network::set_parameter(std::size_t index, const std::vector<float>& values) {
    upload(weights_.value(index), values, architecture_.parameters[index].count());
}

void Network::set_velocity(std::size_t index, const std::vector<float>& values) {
    upload(weights_.velocity(index), values, architecture_.parameters[index].count());
}

void Network::set_running_averages(const std::vector<float>& values) {
    upload(running_.data(), values, running_.count());
}

void Network::refresh() {
    weights_.refresh();
}

}  // namespace cifar

extern "C" __attribute__((visibility("default"))) cifar::GpuNetwork* cifar_make_gpu_network(
    const cifar::GpuNetwork::Options& options) {
    return new cifar::Network(options);
}
