// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/base64.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/error.hpp"
#include "rendezvous/control/escaped.hpp"
#include "rendezvous/control/field_kinds.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Writes and reads messages as JSON objects by their `fields` (field_kinds.hpp). For the .cpp of a
/// codec only, which so keeps nlohmann/json to itself. The reader is strict: a field that is
/// missing, has a value out of its bounds, or comes twice is an error.
namespace ddprun::control::codec {

using Json = nlohmann::json;

inline constexpr double longest_seconds = 10 * 365.25 * 86'400;

// ---- writing ------------------------------------------------------------------------------------

/// Appends the fields of one message to its frame, without building a document: a server of many
/// nodes mostly writes acknowledgements of heartbeats. Never writes invalid JSON.
class Writer {
public:
    static constexpr bool is_reader = false;

    explicit Writer(std::string& frame) : frame_(frame) {}

    template <class T, class Kind = Plain>
    void operator()(std::string_view field, const T& value, const Kind& kind = {}) {
        begin();
        frame_ += '"';
        frame_ += field;
        frame_ += "\":";
        put(value, kind);
    }

    template <class T, class Kind = Plain>
    void optional(std::string_view field, const T& value, const Kind& kind = {}) {
        if (!is_absent(value)) (*this)(field, value, kind);
    }

private:
    void begin() {
        const char last = frame_.back();
        if (last != '{' && last != '[') frame_ += ',';
    }

    void put(bool value, Plain) { frame_ += value ? "true" : "false"; }
    void put(std::uint64_t value, Plain) { frame_ += std::to_string(value); }
    void put(std::integral auto value, const Whole&) { frame_ += std::to_string(value); }
    void put(const Nonce& value, Plain) { put(value.to_string(), Name{}); }

    void put(Duration value, Plain) {
        std::array<char, 32> digits{};
        // Writes the shortest form that is read back as the same double; a Duration is never
        // infinite or NaN.
        const auto length = in_seconds(std::max(value, Duration::zero()));
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), length);
        frame_.append(digits.data(), end.ptr);
    }

    void put(const std::string& value, const Name&) {
        put_quoted(escaped(value, limits::max_name_bytes));
    }

    void put(const std::string& value, Bytes) { put_quoted(to_base64(value)); }

    void put(const std::string& value, Text) {
        const auto safe = escaped(value, text_left_);
        text_left_ -= safe.size();
        put_quoted(safe);
    }

    void put_quoted(std::string_view safe) {
        frame_ += '"';
        frame_ += safe;
        frame_ += '"';
    }

    template <Enumeration T>
    void put(T value, Plain) {
        put_quoted(name_of(value));
    }

    template <Part T>
    void put(const T& value, Plain) {
        frame_ += '{';
        fields(*this, value);
        frame_ += '}';
    }

    template <class T, class Kind>
    void put(const std::optional<T>& value, const Kind& kind) {
        put(*value, kind);
    }

    template <class T, class Element>
    void put(const std::vector<T>& values, const List<Element>& list) {
        frame_ += '[';
        for (const auto& value : values) {
            begin();
            put(value, list.element);
        }
        frame_ += ']';
    }

    std::string& frame_;
    std::size_t text_left_ = limits::max_free_text_bytes;
};

/// Appends the message as one JSON object.
template <class Message>
void append(std::string& out, const Message& message) {
    out.append("{\"type\":\"").append(type_name<Message>).append("\"");
    Writer writer(out);
    fields(writer, message);
    out += '}';
}

// ---- reading ------------------------------------------------------------------------------------

/// The position of a value in its message, innermost first.
struct Place {
    const Place* outer = nullptr;
    std::string_view name;
    bool is_element = false;

    /// "join.settings.no_restart_on[].value"
    std::string path() const {
        auto text = outer == nullptr ? std::string{} : outer->path() + ".";
        text += name;
        return is_element ? text + "[].value" : text;
    }
};

/// What the readers of all objects of one message have in common.
struct Reading {
    /// The first error.
    std::string problem;
    std::size_t text_left = limits::max_free_text_bytes;
};

/// Fills a message from the fields of one JSON object. The first error is kept in `reading`; a
/// field that could not be read keeps its value. So `fields` can read all fields, and its caller
/// checks `problem` once.
class Reader {
public:
    static constexpr bool is_reader = true;

    Reader(const Json& object, const Place& place, Reading& reading)
        : object_(object),
          place_(place),
          reading_(reading) {}

    template <class T, class Kind = Plain>
    void operator()(const char* field, T& value, const Kind& kind = {}) {
        static const Json nothing;
        const auto found = object_.find(field);
        get(found == object_.end() ? nothing : *found, Place{&place_, field}, value, kind);
    }

    template <class T, class Kind = Plain>
    void optional(const char* field, T& value, const Kind& kind = {}) {
        if (object_.contains(field)) (*this)(field, value, kind);
    }

private:
    void complain(const Place& place, std::string_view accepted) {
        auto& problem = reading_.problem;
        if (problem.empty()) problem = place.path() + ": " + std::string{accepted};
    }

    void get(const Json& json, const Place& place, bool& value, Plain) {
        if (!json.is_boolean()) return complain(place, "true or false");
        value = json.get<bool>();
    }

    void get(const Json& json, const Place& place, std::uint64_t& value, Plain) {
        if (!json.is_number_unsigned()) return complain(place, "an integer that is not negative");
        value = json.get<std::uint64_t>();
    }

    template <std::integral T>
    void get(const Json& json, const Place& place, T& value, const Whole& bounds) {
        // Checked as unsigned first, since a big unsigned number would be negative as a signed one.
        const bool is_too_big =
            json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
        if (json.is_number_integer() && !is_too_big) {
            const auto number = json.get<std::int64_t>();
            const bool is_in_range = number >= bounds.least && number <= bounds.most;
            if (is_in_range && number % bounds.multiple_of == 0) {
                value = static_cast<T>(number);
                return;
            }
        }
        complain(
            place,
            "an integer from " + std::to_string(bounds.least) + " to " +
                std::to_string(bounds.most));
    }

    void get(const Json& json, const Place& place, Duration& value, Plain) {
        const auto seconds = json.is_number() ? json.get<double>() : -1;
        if (!(seconds >= 0 && seconds <= longest_seconds))
            return complain(place, "seconds, from 0 to ten years");
        value = from_seconds(seconds);
    }

    void get(const Json& json, const Place& place, Nonce& value, Plain) {
        const auto* digits = json.get_ptr<const std::string*>();
        const auto nonce = digits == nullptr ? std::nullopt : Nonce::parse(*digits);
        if (!nonce) return complain(place, "32 lower-case hexadecimal digits");
        value = *nonce;
    }

    void get(const Json& json, const Place& place, std::string& value, const Name& name) {
        const auto* text = json.get_ptr<const std::string*>();
        if (text == nullptr || text->size() < name.least_bytes ||
            text->size() > limits::max_name_bytes)
            return complain(place, "text of " + std::to_string(name.least_bytes) + " to 255 bytes");
        value = *text;
    }

    void get(const Json& json, const Place& place, std::string& value, Bytes bytes) {
        const auto* text = json.get_ptr<const std::string*>();
        auto given = text == nullptr ? std::nullopt : from_base64(*text);
        if (!given || given->size() > bytes.most)
            return complain(place, "at most " + std::to_string(bytes.most) + " bytes in base64");
        value = std::move(*given);
    }

    // Cut as by the writer: a peer may send more, and a server keeps such texts of each node.
    void get(const Json& json, const Place& place, std::string& value, Text) {
        const auto* text = json.get_ptr<const std::string*>();
        if (text == nullptr) return complain(place, "text");
        value = text->substr(0, reading_.text_left);
        reading_.text_left -= value.size();
    }

    template <Enumeration T>
    void get(const Json& json, const Place& place, T& value, Plain) {
        const auto* given = json.get_ptr<const std::string*>();
        std::string accepted = "one of";
        for (std::underlying_type_t<T> number = 0;; ++number) {
            const auto candidate = static_cast<T>(number);
            const auto name = name_of(candidate);
            if (name.empty()) return complain(place, accepted);
            if (given != nullptr && *given == name) {
                value = candidate;
                return;
            }
            accepted.append(" ").append(name);
        }
    }

    template <Part T>
    void get(const Json& json, const Place& place, T& value, Plain) {
        if (!json.is_object()) return complain(place, "an object");
        Reader reader(json, place, reading_);
        fields(reader, value);
    }

    template <class T, class Kind>
    void get(const Json& json, const Place& place, std::optional<T>& value, const Kind& kind) {
        get(json, place, value.emplace(), kind);
    }

    template <class T, class Element>
    void get(
        const Json& json, const Place& place, std::vector<T>& values, const List<Element>& list) {
        values.clear();
        if (!json.is_array() || json.size() > list.most)
            return complain(place, "a list of at most " + std::to_string(list.most));
        values.reserve(json.size());
        for (const auto& element : json)
            get(element, Place{place.outer, place.name, true}, values.emplace_back(), list.element);
    }

    const Json& object_;
    const Place& place_;
    Reading& reading_;
};

/// Facts about a frame that are determined before the parser builds anything. Text in quotes does
/// not count. For input that is no JSON the result does not matter.
struct Outline {
    bool is_nested_too_deeply = false;
    /// The number of fields of all objects together; a duplicate field counts twice.
    std::size_t field_count = 0;
};

inline Outline outline_of(std::string_view json) {
    Outline outline;
    int depth = 0;
    bool is_in_text = false;
    for (std::size_t at = 0; at < json.size(); ++at) {
        const char c = json[at];
        if (is_in_text && c == '\\')
            ++at;
        else if (c == '"')
            is_in_text = !is_in_text;
        else if (!is_in_text && (c == '{' || c == '['))
            ++depth;
        else if (!is_in_text && (c == '}' || c == ']'))
            --depth;
        else if (!is_in_text && c == ':')
            ++outline.field_count;
        if (depth > limits::max_json_depth) {
            outline.is_nested_too_deeply = true;
            break;
        }
    }
    return outline;
}

/// Counts the parsed fields. The parser keeps only one of two fields with the same name.
inline std::size_t field_count(const Json& json) {
    std::size_t count = json.is_object() ? json.size() : 0;
    if (json.is_structured())
        for (const auto& element : json)
            count += field_count(element);
    return count;
}

/// The message of this type with its fields.
template <class Variant, std::size_t index = 0>
Result<Variant> read(std::string_view type, const Json& json, std::size_t size) {
    if constexpr (index < std::variant_size_v<Variant>) {
        using Message = std::variant_alternative_t<index, Variant>;
        if (type != type_name<Message>) return read<Variant, index + 1>(type, json, size);
        if (size > most_bytes<Message>) return Failure{Error::frame_too_long, std::string{type}};
        Message message;
        Reading reading;
        const Place place{nullptr, type};
        Reader reader(json, place, reading);
        fields(reader, message);
        if (!reading.problem.empty()) return Failure{Error::bad_field, reading.problem};
        return Variant{std::move(message)};
    } else {
        return Failure{Error::unknown_type, escaped(type, limits::max_name_bytes)};
    }
}

/// Reads one of the messages of `Variant`. `what` names the text in an error: "control frame".
template <class Variant>
Result<Variant> message_of(std::string_view body, const std::string& what) {
    const auto outline = outline_of(body);
    if (outline.is_nested_too_deeply) return Failure{Error::nested_too_deeply, what};
    const auto json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return Failure{Error::not_json, what};
    // With duplicate fields, two parsers could read two different messages from one frame.
    if (field_count(json) != outline.field_count)
        return Failure{Error::bad_field, "a field comes twice"};
    const auto type_field = json.find("type");
    if (type_field == json.end() || !type_field->is_string())
        return Failure{Error::unknown_type, what + " without a type"};
    return read<Variant>(type_field->get_ref<const std::string&>(), json, body.size());
}

}  // namespace ddprun::control::codec
