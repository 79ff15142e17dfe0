// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

/// What the definitions of messages in JSON are made of: `fields(io, message)` names each field
/// once, in the order on the wire. The writer and the reader (json_fields.hpp) call it.
///
/// An `io` has `static constexpr bool is_reader` and two calls:
///
///   io("name", value, kind)            always there
///   io.optional("name", value, kind)   left out of the frame while `is_absent(value)`
///
/// `kind` adds what the type of `value` does not say: bounds of numbers and lists, and whether text
/// is an identifier, for display, or bytes. Flags, lengths of time, nonces, enumerators, counters
/// (std::uint64_t) and parts with fields of their own need none.
namespace ddprun::control {

/// Adds nothing to the type.
struct Plain {};

/// An integer between two bounds, both included.
struct Whole {
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::int64_t multiple_of = 1;
};

/// An identifier of at most `limits::max_name_bytes`.
struct Name {
    std::size_t least_bytes = 0;
};

/// Bytes of any kind, in base64 on the wire.
struct Bytes {
    std::size_t most = 0;
};

/// Text for display. All such text of one message together has at most
/// `limits::max_free_text_bytes`.
struct Text {};

template <class Element = Plain>
struct List {
    std::size_t most = 0;
    Element element = {};
};
template <class Element>
List(std::size_t, Element) -> List<Element>;
List(std::size_t)->List<>;

/// `T` for a reader, which changes the message, otherwise `const T`.
template <class Io, class T>
using Like = std::conditional_t<Io::is_reader, T, const T>;

template <class T>
concept Enumeration = std::is_enum_v<T>;

/// A struct for which there is a `fields` function.
template <class T>
concept Part = std::is_aggregate_v<T>;

/// Whether an optional field is left out of the frame: it is an empty optional, an empty text or
/// list, or the first enumerator.
template <class T>
bool is_absent(const T& value) {
    return value == T{};
}

/// The `type` of the message on the wire.
template <class Message>
inline constexpr std::string_view type_name = {};

/// The length of a message on the wire, without what frames it.
template <class Message>
inline constexpr std::size_t most_bytes = std::numeric_limits<std::size_t>::max();

}  // namespace ddprun::control
