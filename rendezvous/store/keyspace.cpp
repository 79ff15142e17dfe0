// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/keyspace.hpp"

#include "rendezvous/wire/encoder.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace ddprun::store {
namespace {

/// What a key costs besides its bytes and its value's: its place in the map, and what allocations
/// are rounded up by.
constexpr std::size_t entry_bytes = 160;
/// In front of each name in a list of them.
constexpr std::size_t encoded_length_bytes = 8;

/// C's `strtoll` in base 10 with the "C" locale, which is what `std::stoll` does upstream.
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

std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

std::size_t Keyspace::growth(std::string_view key, std::size_t value_bytes) const {
    const auto* present = find(key);
    if (present == nullptr) return entry_bytes + key.size() + value_bytes;
    return value_bytes - std::min(value_bytes, present->size());
}

std::size_t Keyspace::growth_by_append(std::string_view key, std::size_t value_bytes) const {
    return value_bytes + (has(key) ? 0 : entry_bytes + key.size());
}

std::size_t Keyspace::growth_by_names() const {
    return names_.get() ? 0 : encoded_names_bytes_;
}

Keyspace::Values::iterator Keyspace::insert(std::string key, wire::SharedText value) {
    *meter_ += entry_bytes + key.size() + value.own_bytes();
    encoded_names_bytes_ += encoded_length_bytes + key.size();
    names_.reset();
    return values_.emplace(std::move(key), std::move(value)).first;
}

void Keyspace::replace(wire::SharedText& place, wire::SharedText value) {
    *meter_ += value.own_bytes();
    *meter_ -= place.own_bytes();
    place = std::move(value);
}

bool Keyspace::put(std::string key, std::string value) {
    wire::SharedText text{std::move(value), meter_};
    const auto place = values_.find(key);
    if (place == values_.end()) {
        insert(std::move(key), std::move(text));
        return true;
    }
    replace(place->second, std::move(text));
    return false;
}

bool Keyspace::append(std::string key, std::string_view value) {
    auto place = values_.find(key);
    const bool is_new = place == values_.end();
    if (is_new) place = insert(std::move(key), {});
    *meter_ -= place->second.own_bytes();
    place->second.append(value, meter_);
    *meter_ += place->second.own_bytes();
    return is_new;
}

Keyspace::Compared Keyspace::compare_set(
    std::string key, std::string_view expected, std::string desired) {
    const auto place = values_.find(key);
    if (place == values_.end()) {
        if (!expected.empty()) return {std::string{expected}, false};
    } else if (place->second.view() != expected) {
        return {place->second, false};
    }
    wire::SharedText value{std::move(desired), meter_};
    if (place != values_.end())
        replace(place->second, value);
    else
        insert(std::move(key), value);
    return {std::move(value), true};
}

std::optional<Keyspace::Added> Keyspace::add(std::string key, std::int64_t delta) {
    const auto place = values_.find(key);
    if (place == values_.end()) {
        insert(std::move(key), std::to_string(delta));
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
