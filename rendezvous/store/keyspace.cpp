// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/keyspace.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace ddprun::store {
namespace {

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

bool Keyspace::put(std::string key, std::string value) {
    return values_.insert_or_assign(std::move(key), std::move(value)).second;
}

bool Keyspace::append(std::string key, std::string_view value) {
    const auto [place, is_new] = values_.try_emplace(std::move(key));
    place->second.append(value);
    return is_new;
}

Keyspace::Compared Keyspace::compare_set(
    std::string key, std::string_view expected, std::string desired) {
    const auto place = values_.find(key);
    if (place == values_.end()) {
        if (!expected.empty()) return {std::string{expected}, false};
        values_.emplace(std::move(key), desired);
        return {std::move(desired), true};
    }
    if (place->second != expected) return {place->second, false};
    place->second = desired;
    return {std::move(desired), true};
}

std::optional<Keyspace::Added> Keyspace::add(std::string key, std::int64_t delta) {
    const auto place = values_.find(key);
    if (place == values_.end()) {
        values_.emplace(std::move(key), std::to_string(delta));
        return Added{delta, true};
    }
    const auto number = leading_number(place->second);
    if (!number) return std::nullopt;
    const auto sum = wrapping_sum(*number, delta);
    place->second = std::to_string(sum);
    return Added{sum, false};
}

bool Keyspace::erase(std::string_view key) {
    const auto place = values_.find(key);
    if (place == values_.end()) return false;
    values_.erase(place);
    return true;
}

const std::string* Keyspace::find(std::string_view key) const {
    const auto place = values_.find(key);
    return place == values_.end() ? nullptr : &place->second;
}

std::vector<std::string> Keyspace::names() const {
    std::vector<std::string> names;
    names.reserve(values_.size());
    for (const auto& [name, value] : values_)
        names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace ddprun::store
