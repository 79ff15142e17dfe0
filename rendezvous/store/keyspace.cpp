// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/keyspace.hpp"

#include "rendezvous/wire/encoder.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace ddprun::store {
namespace {

/// The memory overhead of a key: its entry in the map, and the rounding of allocations.
constexpr std::size_t entry_bytes = 160;
/// The length in front of each name in a list.
constexpr std::size_t encoded_length_bytes = 8;

/// Reads a number as C's `strtoll` does in base 10 with the "C" locale, as `std::stoll` does in
/// PyTorch.
std::optional<std::int64_t> leading_number(std::string_view text) {
    const auto start = text.find_first_not_of(" \t\n\v\f\r");
    if (start == std::string_view::npos) return std::nullopt;
    text.remove_prefix(start);
    if (text.front() == '+') {
        text.remove_prefix(1);
        if (!text.empty() && text.front() == '-') return std::nullopt;
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return std::nullopt;
    return number;
}

/// Compares as COMPARE_SET does: a missing key counts as empty.
bool is_equal(const wire::SharedText* present, std::string_view expected) {
    return (present != nullptr ? present->view() : std::string_view{}) == expected;
}

std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

std::size_t Keyspace::growth(std::string_view key, std::size_t value_bytes) const {
    const auto* present = find(key);
    if (present == nullptr) return entry_bytes + key.size() + value_bytes;
    return value_bytes - std::min(value_bytes, present->sole_bytes());
}

std::size_t Keyspace::growth_by_append(std::string_view key, std::size_t value_bytes) const {
    const auto* present = find(key);
    return present != nullptr ? present->growth_by_append(value_bytes) : growth(key, value_bytes);
}

std::size_t Keyspace::growth_by_compare_set(
    std::string_view key, std::string_view expected, std::size_t value_bytes) const {
    return is_equal(find(key), expected) ? growth(key, value_bytes) : 0;
}

std::size_t Keyspace::growth_by_names() const {
    return names_.get() ? 0 : encoded_names_bytes_;
}

Keyspace::Values::iterator Keyspace::insert(std::string key, wire::SharedText value) {
    const auto place = values_.emplace(std::move(key), std::move(value)).first;
    *meter_ += entry_bytes + place->first.size() + place->second.own_bytes();
    encoded_names_bytes_ += encoded_length_bytes + place->first.size();
    names_.reset();
    return place;
}

void Keyspace::replace(wire::SharedText& place, wire::SharedText value) {
    *meter_ -= place.own_bytes();
    place = std::move(value);
    *meter_ += place.own_bytes();
}

std::string_view Keyspace::put(std::string&& key, std::string&& value) {
    wire::SharedText text{std::move(value), meter_};
    auto place = values_.find(key);
    if (place == values_.end())
        place = insert(std::move(key), std::move(text));
    else
        replace(place->second, std::move(text));
    return place->first;
}

void Keyspace::append(const std::string& key, std::string_view value) {
    const auto place = values_.find(key);
    if (place == values_.end()) {
        insert(key, {std::string{value}, meter_});
        return;
    }
    const auto before = place->second.own_bytes();
    place->second.append(value, meter_);
    *meter_ += place->second.own_bytes() - before;
}

Keyspace::Compared Keyspace::compare_set(
    const std::string& key, std::string_view expected, std::string desired) {
    const auto place = values_.find(key);
    auto* const present = place == values_.end() ? nullptr : &place->second;
    if (!is_equal(present, expected))
        return {present != nullptr ? *present : wire::SharedText{std::string{expected}}, false};
    wire::SharedText value{std::move(desired), meter_};
    if (present != nullptr)
        replace(*present, value);
    else
        insert(key, value);
    return {std::move(value), true};
}

std::optional<Keyspace::Added> Keyspace::add(const std::string& key, std::int64_t delta) {
    const auto place = values_.find(key);
    if (place == values_.end()) {
        insert(key, std::to_string(delta));
        return Added{delta, true};
    }
    const auto number = leading_number(place->second.view());
    if (!number) return std::nullopt;
    const auto sum = wrapping_sum(*number, delta);
    replace(place->second, std::to_string(sum));
    return Added{sum, false};
}

bool Keyspace::erase(std::string_view key) {
    const auto place = values_.find(key);
    if (place == values_.end()) return false;
    *meter_ -= entry_bytes + key.size() + place->second.own_bytes();
    encoded_names_bytes_ -= encoded_length_bytes + key.size();
    names_.reset();
    values_.erase(place);
    return true;
}

const wire::SharedText* Keyspace::find(std::string_view key) const {
    const auto place = values_.find(key);
    return place == values_.end() ? nullptr : &place->second;
}

wire::EncodedKeys Keyspace::names() {
    auto encoded = names_.get();
    if (!encoded) {
        std::string bytes;
        bytes.reserve(encoded_names_bytes_);
        for (const auto& [name, value] : values_)
            wire::encode_key(name, bytes);
        encoded = wire::SharedText{std::move(bytes), meter_};
        names_ = encoded->observer();
    }
    return {values_.size(), *std::move(encoded)};
}

}  // namespace ddprun::store
