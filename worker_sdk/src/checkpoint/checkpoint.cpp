// SPDX-License-Identifier: Apache-2.0
#include "ddprun/checkpoint.hpp"

#include "ddprun/error.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ddprun {
namespace {

constexpr const char* incarnation_key = "ddprun.incarnation";
constexpr const char* round_base_key = "ddprun.round_base";

template <class T>
const std::vector<T>& values_of(
    const Checkpoint& checkpoint, const std::string& name, std::size_t count, const char* type) {
    const auto* tensor = checkpoint.find(name);
    if (tensor == nullptr) throw Error("the checkpoint has no tensor '" + name + "'");
    const auto* values = std::get_if<std::vector<T>>(&tensor->values);
    if (values == nullptr)
        throw Error("tensor '" + name + "' of the checkpoint is not of type " + type);
    if (values->size() != count)
        throw Error(
            "tensor '" + name + "' of the checkpoint has " + std::to_string(values->size()) +
            " values, expected are " + std::to_string(count));
    return *values;
}

std::optional<std::uint64_t> number_in(const Checkpoint& checkpoint, const char* key) {
    const auto text = checkpoint.texts.find(key);
    if (text == checkpoint.texts.end()) return std::nullopt;
    const auto* end = text->second.data() + text->second.size();
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(text->second.data(), end, number);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return number;
}

}  // namespace

void Checkpoint::add(std::string name, std::vector<std::uint64_t> shape, Tensor::Values values) {
    tensors.push_back({std::move(name), std::move(shape), std::move(values)});
}

void Checkpoint::add(std::string name, const float* values, std::size_t count) {
    add(std::move(name), {count}, std::vector<float>(values, values + count));
}

void Checkpoint::add_view(std::string name, const float* values, std::size_t count) {
    add_view_raw(std::move(name), values, count, ElementType::float32);
}

void Checkpoint::add_view_raw(
    std::string name, const void* values, std::size_t count, ElementType type) {
    views.push_back({std::move(name), values, count, type});
}

void Checkpoint::add(std::string name, std::int64_t number) {
    add(std::move(name), {}, std::vector<std::int64_t>{number});
}

void Checkpoint::add(std::string name, double number) {
    add(std::move(name), {}, std::vector<double>{number});
}

const Tensor* Checkpoint::find(const std::string& name) const {
    const auto found = std::find_if(
        tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == name; });
    return found == tensors.end() ? nullptr : &*found;
}

void Checkpoint::copy_to(const std::string& name, float* values, std::size_t count) const {
    const auto& source = values_of<float>(*this, name, count, "float");
    std::copy(source.begin(), source.end(), values);
}

std::int64_t Checkpoint::integer(const std::string& name) const {
    return values_of<std::int64_t>(*this, name, 1, "integer").front();
}

double Checkpoint::real(const std::string& name) const {
    return values_of<double>(*this, name, 1, "double").front();
}

const std::string& Checkpoint::text(const std::string& key) const {
    const auto found = texts.find(key);
    if (found == texts.end()) throw Error("the checkpoint has no text '" + key + "'");
    return found->second;
}

CheckpointRound::CheckpointRound(const World& world, const Checkpoint* resumed)
    : incarnation_(world.incarnation),
      round_(static_cast<std::uint64_t>(world.round)) {
    if (resumed == nullptr) return;
    const auto base = number_in(*resumed, round_base_key);
    const auto incarnation = resumed->texts.find(incarnation_key);
    const bool is_same_life = base && !incarnation_.empty() &&
                              incarnation != resumed->texts.end() &&
                              incarnation->second == incarnation_;
    // The launcher's rounds grow within one incarnation. So a checkpoint resumed in the same
    // incarnation is of an earlier round, or of this one when it is read twice.
    base_ = is_same_life ? *base : resumed->round + 1;
}

void CheckpointRound::write_to(Checkpoint& checkpoint) const {
    checkpoint.round = number();
    checkpoint.texts[incarnation_key] = incarnation_;
    checkpoint.texts[round_base_key] = std::to_string(base_);
}

}  // namespace ddprun
