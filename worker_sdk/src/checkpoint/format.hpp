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

/// Encodes and decodes the bytes of a checkpoint, as described in FORMAT.md. Uses no files;
/// folder.cpp handles them.
namespace ddprun::checkpoint {

/// Why bytes are no valid checkpoint.
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
/// True when the file is whole but its checkpoint belongs to another model.
bool does_not_fit(const Failure& failure);

/// The newest version that can be read. A file is written in the oldest version that has all
/// features it needs.
inline constexpr std::uint32_t format_version = 2;
inline constexpr std::size_t max_text_count = 65'536;
inline constexpr std::size_t max_tensor_count = 1'048'576;
inline constexpr std::size_t max_name_bytes = 1'024;
inline constexpr std::size_t max_text_bytes = 1024 * 1024;
inline constexpr std::size_t max_dimension_count = 16;

/// Up to and including the file size.
inline constexpr std::size_t preamble_bytes = 20;

/// Calls `call` with a value of the C++ type; does nothing for types that no checkpoint has.
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

/// Bytes of one element; 0 for a type that no checkpoint has.
std::size_t bytes_of(ElementType type);

/// Refuses a type that no checkpoint has.
Result<> check_types(std::span<const TensorView> views);

/// Refuses what `decode` would not accept, with the name in the context: a shape that does not fit,
/// a duplicate name, a text that is too long.
Result<> check(const Checkpoint& checkpoint);

/// Takes the next bytes of a file; they are valid during the call.
using Sink = std::function<Result<>(std::span<const std::byte>)>;

/// Passes the file to `sink` piece by piece. Values are not copied first, so the whole file is
/// never in memory. Ends with the first error of `sink`. Requires: `check` succeeds.
Result<> encode(const Checkpoint& checkpoint, const Sink& sink);

/// The size of the file that begins with these bytes. Lets a reader refuse a file of another size
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

/// Which numbers of a part are kept, and where.
struct PartRange {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    void* target = nullptr;
};

/// Returns the range of a part to keep. An error makes the file unfit, with the context as the
/// reason.
using PlaceOfPart = std::function<Result<PartRange>(const PartHeader&)>;

/// Where the values of a decoded checkpoint go.
struct Destination {
    /// These tensors are written here and not returned. A file is unfit when one is missing or has
    /// another type or count.
    std::span<const TensorTarget> targets{};
    /// No value is kept: only checks whether the file is whole and fits.
    bool is_check = false;
    /// Null: parts are kept as tensors.
    PlaceOfPart place_of_part = {};
};

/// Decodes a file of that size, first byte included, without holding it in memory as a whole. Any
/// input gives a checkpoint or an error; allocations stay within a few times its size. The first
/// error of `source`, if any, is the error returned.
Result<Checkpoint> decode(
    const Source& source, std::uint64_t file_size, const Destination& destination = {});
/// The same from memory.
Result<Checkpoint> decode(std::span<const std::byte> file, const Destination& destination = {});

/// The number of values of this shape; none when the product of the dimensions overflows.
std::optional<std::uint64_t> count_of(const std::vector<std::uint64_t>& shape);

}  // namespace ddprun::checkpoint

template <>
struct boost::system::is_error_code_enum<ddprun::checkpoint::Fault> : std::true_type {};
