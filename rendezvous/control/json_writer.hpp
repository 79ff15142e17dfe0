// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::control {

/// Appends one JSON object, field by field, in the order of the calls, and frames it.
///
/// By hand, because a library's writer throws on text that is not UTF-8 and knows nothing of a
/// bound that counts after escaping. Never throws (but for memory), never writes invalid JSON.
class JsonWriter {
public:
    /// The head of a frame and `{"type":"..."`.
    explicit JsonWriter(std::string_view type);

    void integer(std::string_view field, std::int64_t value);
    void counter(std::string_view field, std::uint64_t value);
    void truth(std::string_view field, bool value);
    void seconds(std::string_view field, Duration value);
    /// An identifier: at most `limits::max_name_bytes` after escaping.
    void name(std::string_view field, std::string_view value);
    /// For people: all of a message together is at most `limits::max_free_text_bytes`.
    void text(std::string_view field, std::string_view value);

    template <class Body>
    void object(std::string_view field, Body body) {
        open(field, '{');
        body();
        close('}');
    }
    /// `element(value)` writes one element with `object`, `name` or `integer` and no field name.
    template <class Values, class Element>
    void list(std::string_view field, const Values& values, Element element) {
        open(field, '[');
        for (const auto& value : values)
            element(value);
        close(']');
    }

    /// The whole frame. The writer is used up.
    std::string frame() &&;

private:
    void begin(std::string_view field);
    void open(std::string_view field, char bracket);
    void close(char bracket);

    std::string bytes_;
    std::size_t text_left_;
};

}  // namespace ddprun::control
