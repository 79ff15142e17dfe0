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

/// The keys and values of one store, with PyTorch's arithmetic: a counter is decimal text. Queues
/// are in queues.hpp; keys and queues have nothing in common but the names for WAIT and CHECK.
class Keyspace {
public:
    /// Big values are shared with the replies that carry them. `meter` counts all stored bytes.
    explicit Keyspace(wire::Meter meter) : meter_(std::move(meter)) {}

    /// How much the meter grows at most when a value of this size is stored at the key. Replacing a
    /// value frees no memory while replies still carry the old one.
    std::size_t growth(std::string_view key, std::size_t value_bytes) const;
    /// How much the meter grows at most when bytes are appended to the value.
    std::size_t growth_by_append(std::string_view key, std::size_t value_bytes) const;
    /// How much the meter grows at most by a COMPARE_SET.
    std::size_t growth_by_compare_set(
        std::string_view key, std::string_view expected, std::size_t value_bytes) const;
    /// How much the meter grows when a new list of the names is encoded.
    std::size_t growth_by_names() const;

    // If memory runs out, the functions below throw before anything has changed.

    /// Inserts or overwrites. Returns the stored key, valid until it is erased.
    std::string_view put(std::string&& key, std::string&& value);
    /// Adds at the end of the value, which is empty for a missing key.
    void append(const std::string& key, std::string_view value);

    struct Compared {
        /// COMPARE_SET's reply: `desired` if it was stored, else the present value, or `expected`
        /// if the key is missing.
        wire::SharedText answer;
        bool is_stored = false;
    };
    /// Stores `desired` if the value is `expected`; a missing key counts as empty.
    Compared compare_set(const std::string& key, std::string_view expected, std::string desired);

    struct Added {
        std::int64_t sum = 0;
        bool is_new = false;
    };
    /// Reads the value as PyTorch does (leading blanks and a sign are allowed, text after the
    /// digits is ignored), adds with wrap-around and stores decimal text. None if the value has
    /// another form; then the key is unchanged.
    std::optional<Added> add(const std::string& key, std::int64_t delta);

    bool erase(std::string_view key);

    /// Null if missing; valid until the next change.
    const wire::SharedText* find(std::string_view key) const;
    bool has(std::string_view key) const { return find(key) != nullptr; }
    std::size_t size() const { return values_.size(); }
    /// All names, in no particular order. The list is kept while a reply carries it, and encoded
    /// again after a key was added or erased.
    wire::EncodedKeys names();

private:
    using Values = StringMap<wire::SharedText>;

    Values::iterator insert(std::string key, wire::SharedText value);
    void replace(wire::SharedText& place, wire::SharedText value);

    wire::Meter meter_;
    /// The size of `names`.
    std::size_t encoded_names_bytes_ = 0;
    Values values_;
    wire::SharedText::Observer names_;
};

}  // namespace ddprun::store
