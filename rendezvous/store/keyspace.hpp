// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/wire/message.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::store {

/// Lets a map of strings be searched with a view.
struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
        return std::hash<std::string_view>{}(text);
    }
};

template <class T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

/// The keys and values of one store, with PyTorch's arithmetic: a counter is decimal text.
/// Queues are not here (queues.hpp): the two share only the names that WAIT and CHECK look at.
class Keyspace {
public:
    /// Big values are shared with the replies that carry them. `meter` counts all that is stored.
    explicit Keyspace(wire::Meter meter) : meter_(std::move(meter)) {}

    /// What storing a value of this size at the key adds to the meter: at most. A value that is
    /// replaced frees nothing while replies still carry it.
    std::size_t growth(std::string_view key, std::size_t value_bytes) const;
    /// The same, if the value is added at the end.
    std::size_t growth_by_append(std::string_view key, std::size_t value_bytes) const;
    /// The same, if it is stored only where the present value is `expected`.
    std::size_t growth_by_compare_set(
        std::string_view key, std::string_view expected, std::size_t value_bytes) const;
    /// What a new list of the names adds to the meter.
    std::size_t growth_by_names() const;

    // Without memory for a change, it throws before anything has changed.

    /// Inserts or overwrites. The key as it is stored, valid until it is erased.
    std::string_view put(std::string key, std::string value);
    /// Adds at the end of the value, which is empty for a missing key.
    void append(const std::string& key, std::string_view value);

    struct Compared {
        /// What COMPARE_SET answers: `desired` if it was stored, else the present value, else
        /// (missing key) `expected`.
        wire::SharedText answer;
        bool is_stored = false;
    };
    /// Stores `desired` if the value is `expected`; a missing key counts as empty.
    Compared compare_set(const std::string& key, std::string_view expected, std::string desired);

    struct Added {
        std::int64_t sum = 0;
        bool is_new = false;
    };
    /// Reads the value as PyTorch does (leading blanks, a sign, what follows the digits ignored),
    /// adds with wrap-around and stores decimal text. Nothing if the value is no such number: the
    /// key is unchanged then.
    std::optional<Added> add(const std::string& key, std::int64_t delta);

    bool erase(std::string_view key);

    /// Null if missing; valid until the next change.
    const wire::SharedText* find(std::string_view key) const;
    bool has(std::string_view key) const { return find(key) != nullptr; }
    std::size_t size() const { return values_.size(); }
    /// In no order. Encoded again only if a key has come or gone, or the last list is sent.
    wire::EncodedKeys names();

private:
    using Values = StringMap<wire::SharedText>;

    Values::iterator insert(std::string key, wire::SharedText value);
    void replace(wire::SharedText& place, wire::SharedText value);

    wire::Meter meter_;
    /// Of `names`.
    std::size_t encoded_names_bytes_ = 0;
    Values values_;
    wire::SharedText::Observer names_;
};

}  // namespace ddprun::store
