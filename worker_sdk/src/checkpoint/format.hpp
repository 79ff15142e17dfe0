// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/checkpoint.hpp"
#include "rendezvous/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

/// The bytes of a checkpoint, by FORMAT.md. Pure; folder.cpp handles files.
namespace ddprun::checkpoint {

/// Why bytes are not a checkpoint.
enum class Fault {
    not_a_checkpoint = 1,
    cut_short,
    damaged,
    later_version,
    malformed,
    misnamed,
    unfit,
};

error_code make_error_code(Fault fault);
/// Whether the file is whole and the checkpoint another model's.
bool does_not_fit(const Failure& failure);

/// The newest that is read. A file has the oldest that has all it needs.
inline constexpr std::uint32_t format_version = 2;
inline constexpr std::size_t max_text_count = 65'536;
inline constexpr std::size_t max_tensor_count = 1'048'576;
inline constexpr std::size_t max_name_bytes = 1'024;
inline constexpr std::size_t max_text_bytes = 1024 * 1024;
inline constexpr std::size_t max_dimension_count = 16;

/// Up to and including the file size.
inline constexpr std::size_t preamble_bytes = 20;

/// Calls `call` with a value of the C++ type; of types that no checkpoint has, it does not.
template <class Call>
void with_type(ElementType type, Call call) {
    switch (type) {
        case ElementType::float32: return call(float{});
        case ElementType::float64: return call(double{});
        case ElementType::int64: return call(std::int64_t{});
        case ElementType::bfloat16: return call(BFloat16{});
        case ElementType::float16: return call(Float16{});
        case ElementType::int32:
        case ElementType::uint8:
        case ElementType::int8:
        case ElementType::uint32:
        case ElementType::uint64:
        case ElementType::boolean:
        case ElementType::float8_e4m3:
        case ElementType::float8_e5m2: return;
    }
}

/// Of an element; 0 for a type that no checkpoint has.
std::size_t bytes_of(ElementType type);

/// Refuses a type that no checkpoint has.
Result<> check_types(std::span<const TensorView> views);

/// Refuses, with the name in the context, what `decode` would not accept: a shape that does not
/// fit, a duplicate name, a text that is too long.
Result<> check(const Checkpoint& checkpoint);

/// Takes the next bytes of a file; they are valid during the call.
using Sink = std::function<Result<>(std::span<const std::byte>)>;

/// The file, one piece after the other: values come from where they are, so that the whole is
/// never in memory. Ends with the first error of `sink`. Requires: `check` has no objection.
Result<> encode(const Checkpoint& checkpoint, const Sink& sink);

/// How long the file is that begins with these bytes. Lets a reader refuse a file of another size
/// before it reads it.
Result<std::uint64_t> file_size_in(std::span<const std::byte> preamble);

/// Fills all of a span with the next bytes of a file.
using Source = std::function<Result<>(std::span<std::byte>)>;

/// A part of a tensor in a file: `count` numbers.
struct PartHeader {
    std::string name;
    ElementType type = ElementType::float32;
    std::uint64_t count = 0;
    PartOfTensor part;
};

/// Of the numbers of a part: those that are kept, and where.
struct PartRange {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    void* target = nullptr;
};

/// The range to keep of a part, within it. An error makes the file unfit, with the context as the
/// reason.
using PlaceOfPart = std::function<Result<PartRange>(const PartHeader&)>;

/// Where the values of a checkpoint go that is decoded.
struct Destination {
    /// The tensors that are not returned but written here. A file without one of them, or with
    /// another type or count, is unfit.
    std::span<const TensorTarget> targets{};
    /// No value is kept: to find out whether the file is whole, and fits.
    bool is_check = false;
    /// Null: parts of tensors are kept as tensors.
    PlaceOfPart place_of_part = {};
};

/// Decodes a file of that size, first byte included, which is never in memory as a whole. Any
/// bytes give a checkpoint or a reason; never allocates more than a few times their size. The
/// reason is the first error of `source` where it has one.
Result<Checkpoint> decode(
    const Source& source, std::uint64_t file_size, const Destination& destination = {});
/// The same from memory.
Result<Checkpoint> decode(std::span<const std::byte> file, const Destination& destination = {});

/// Of the values' type and count; nothing when the product of the dimensions overflows.
std::optional<std::uint64_t> count_of(const std::vector<std::uint64_t>& shape);

}  // namespace ddprun::checkpoint

template <>
struct boost::system::is_error_code_enum<ddprun::checkpoint::Fault> : std::true_type {};
