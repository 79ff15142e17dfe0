// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/format.hpp"

#include "worker_sdk/src/checkpoint/crc32.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ddprun::checkpoint {

// The values are copied in their memory layout.
static_assert(std::endian::native == std::endian::little);

namespace {

class FaultCategory final : public boost::system::error_category {
public:
    const char* name() const noexcept override { return "ddprun.checkpoint"; }

    std::string message(int value) const override {
        switch (static_cast<Fault>(value)) {
            case Fault::not_a_checkpoint: return "this is not a checkpoint file";
            case Fault::cut_short: return "the file is cut short";
            case Fault::damaged: return "the file is damaged: its checksum is wrong";
            case Fault::later_version: return "the file was written by a later version of ddprun";
            case Fault::malformed: return "the file does not follow its format";
            case Fault::misnamed: return "its name does not match its content";
            case Fault::unfit: return "the checkpoint does not fit the model";
        }
        return "unknown fault";
    }
};

constexpr std::string_view magic = "DDPCKPT\n";
constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t header_bytes = preamble_bytes + 8 + 8 + 4 + 4;

/// Added to the type number when a tensor is a part.
constexpr std::uint8_t part_flag = 0x80;

/// The order is that of Tensor::Values and of the types' numbers in the file, which begin with 1.
constexpr std::array element_types{
    ElementType::float32,
    ElementType::float64,
    ElementType::int64,
    ElementType::bfloat16,
    ElementType::float16};

std::uint8_t number_of(ElementType type) {
    const auto* const place = std::find(element_types.begin(), element_types.end(), type);
    return static_cast<std::uint8_t>(place - element_types.begin() + 1);
}

const char* name_of(ElementType type) {
    constexpr std::array names{"float", "double", "integer", "bfloat16", "float16"};
    return names[number_of(type) - std::size_t{1}];
}

bool is_of_version_2(ElementType type) {
    return type == ElementType::bfloat16 || type == ElementType::float16;
}

constexpr const char* no_round_text =
    "it has no round: call CheckpointRound::write_to, or set its round";

Failure malformed(std::string what) {
    return {Fault::malformed, std::move(what)};
}

/// Why these numbers cannot describe a part of a tensor; empty when they can.
std::string fault_of(const PartOfTensor& part, std::uint64_t count) {
    const bool is_inside = part.begin <= part.whole_count && count <= part.whole_count - part.begin;
    return is_inside ? "" : "is a part that lies outside its tensor";
}

bool is_part(const PartOfTensor& part) {
    return part.whole_count > 0;
}

ElementType type_of(const Tensor::Values& values) {
    return element_types[values.index()];
}

/// Why a tensor's shape cannot be written; empty when it can.
std::string fault_of(const Tensor& tensor) {
    if (tensor.shape.size() > max_dimension_count) return "has too many dimensions";
    const auto count = std::visit([](const auto& values) { return values.size(); }, tensor.values);
    if (count_of(tensor.shape) != count)
        return "has " + std::to_string(count) + " values, which does not match its shape";
    if (is_part(tensor.part)) return fault_of(tensor.part, count);
    return {};
}

std::string fault_of_name(const std::string& name) {
    if (name.empty()) return "a name is empty";
    if (name.size() > max_name_bytes) return "the name '" + name.substr(0, 40) + "...' is too long";
    return {};
}

/// Forwards small fields together and values in pieces, so that the checksum is computed while they
/// are in the cache.
class Writer {
public:
    explicit Writer(const Sink& sink) : sink_(sink) { small_.reserve(most_small_bytes); }

    template <class T>
    void number(T value) {
        raw(&value, sizeof value);
    }
    void text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        raw(value.data(), value.size());
    }
    void raw(const void* data, std::size_t size) {
        const std::span bytes{static_cast<const std::byte*>(data), size};
        if (small_.size() + size > most_small_bytes) flush();
        if (size <= most_small_bytes)
            small_.insert(small_.end(), bytes.begin(), bytes.end());
        else
            for (std::size_t at = 0; at < size; at += piece_bytes)
                pass_on(bytes.subspan(at, std::min(piece_bytes, size - at)));
    }
    Result<> finish() {
        flush();
        const auto sum = sum_.value();
        if (result_) result_ = sink_(std::as_bytes(std::span{&sum, 1}));
        return result_;
    }

private:
    static constexpr std::size_t most_small_bytes = 64 * 1024;
    static constexpr std::size_t piece_bytes = 256 * 1024;

    void flush() {
        pass_on(small_);
        small_.clear();
    }
    void pass_on(std::span<const std::byte> bytes) {
        if (bytes.empty() || !result_) return;
        sum_.add(bytes);
        result_ = sink_(bytes);
    }

    const Sink& sink_;
    std::vector<std::byte> small_;
    Crc32 sum_;
    Result<> result_;
};

/// Reads sequentially and updates the checksum. After the first read beyond the end, or error of
/// the source, all reads are empty and `ok` is false.
class Reader {
public:
    Reader(const Source& source, std::uint64_t size) : source_(source), left_(size) {}

    bool ok() const { return ok_; }
    std::uint64_t left() const { return left_; }
    const Result<>& source_result() const { return result_; }

    template <class T>
    T number() {
        T value{};
        read(&value, sizeof value);
        return ok_ ? value : T{};
    }
    std::string text(std::size_t limit) {
        const auto size = number<std::uint32_t>();
        if (size > limit || size > left_) return fail(), std::string{};
        std::string value(size, '\0');
        read(value.data(), size);
        return value;
    }
    /// Reads that many values. A count that the file cannot hold is refused before anything is
    /// allocated.
    template <class T>
    std::vector<T> values(std::uint64_t count) {
        if (count > left_ / sizeof(T)) return fail(), std::vector<T>{};
        std::vector<T> result(count);
        read(result.data(), count * sizeof(T));
        return result;
    }
    /// Reads in pieces, so that the checksum is computed while each is in the cache.
    void read(void* target, std::uint64_t size) {
        if (!ok_ || size > left_) return fail();
        auto* at = static_cast<std::byte*>(target);
        for (std::uint64_t left = size; left > 0 && ok_;) {
            const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece_bytes));
            take({at, piece});
            at += piece;
            left -= piece;
        }
    }
    void skip(std::uint64_t size) {
        if (!ok_ || size > left_) return fail();
        for (std::uint64_t left = size; left > 0 && ok_;) {
            skipped_.resize(piece_bytes);
            const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece_bytes));
            take({skipped_.data(), piece});
            left -= piece;
        }
    }
    /// Excludes the checksum from the following reads. Requires: the file has one.
    void begin_body() { left_ -= checksum_bytes; }
    /// Skips the rest, even after an invalid length. Returns whether the checksum is right.
    bool has_right_sum() {
        if (!result_) return false;
        ok_ = true;
        skip(left_);
        const auto sum = sum_.value();
        std::uint32_t stored = 0;
        left_ = sizeof stored;
        read(&stored, sizeof stored);
        return ok_ && stored == sum;
    }
    void fail() { ok_ = false; }

private:
    static constexpr std::size_t piece_bytes = 256 * 1024;

    void take(std::span<std::byte> target) {
        result_ = source_(target);
        if (!result_) return fail();
        left_ -= target.size();
        sum_.add(target);
    }

    const Source& source_;
    std::uint64_t left_;
    bool ok_ = true;
    Result<> result_;
    Crc32 sum_;
    std::vector<std::byte> skipped_;
};

std::size_t tensor_count_of(const Checkpoint& checkpoint) {
    return checkpoint.tensors.size() + checkpoint.views.size();
}

std::size_t encoded_size(const Checkpoint& checkpoint) {
    constexpr std::size_t part_bytes = 16;
    auto size = header_bytes + checksum_bytes;
    for (const auto& [key, value] : checkpoint.texts)
        size += 8 + key.size() + value.size();
    for (const auto& tensor : checkpoint.tensors)
        size += 6 + tensor.name.size() + 8 * tensor.shape.size() +
                (is_part(tensor.part) ? part_bytes : 0) +
                std::visit(
                    [](const auto& values) { return values.size() * sizeof(values[0]); },
                    tensor.values);
    for (const auto& view : checkpoint.views)
        size += 6 + view.name.size() + 8 + (is_part(view.part) ? part_bytes : 0) +
                view.count * bytes_of(view.type);
    return size;
}

/// A checkpoint without new features is written so that programs of earlier releases can read it.
std::uint32_t version_of(const Checkpoint& checkpoint) {
    const auto is_new = [](ElementType type, const PartOfTensor& part) {
        return is_of_version_2(type) || is_part(part);
    };
    for (const auto& tensor : checkpoint.tensors)
        if (is_new(type_of(tensor.values), tensor.part)) return 2;
    for (const auto& view : checkpoint.views)
        if (is_new(view.type, view.part)) return 2;
    return 1;
}

/// Writes all of a tensor but its values.
void write_head(
    Writer& writer,
    const std::string& name,
    ElementType type,
    std::span<const std::uint64_t> shape,
    const PartOfTensor& part) {
    writer.text(name);
    const auto number = number_of(type);
    writer.number(static_cast<std::uint8_t>(is_part(part) ? number | part_flag : number));
    writer.number(static_cast<std::uint8_t>(shape.size()));
    for (const auto dimension : shape)
        writer.number(dimension);
    if (!is_part(part)) return;
    writer.number(part.begin);
    writer.number(part.whole_count);
}

void write_tensors(Writer& writer, const Checkpoint& checkpoint) {
    for (const auto& tensor : checkpoint.tensors) {
        write_head(writer, tensor.name, type_of(tensor.values), tensor.shape, tensor.part);
        std::visit(
            [&](const auto& values) {
                writer.raw(values.data(), values.size() * sizeof(values[0]));
            },
            tensor.values);
    }
    for (const auto& view : checkpoint.views) {
        const std::array shape{std::uint64_t{view.count}};
        write_head(writer, view.name, view.type, shape, view.part);
        writer.raw(view.values, view.count * bytes_of(view.type));
    }
}

Failure unfit(std::string what) {
    return {Fault::unfit, std::move(what)};
}

/// Reads the tensors of a file to their destination.
class TensorReader {
public:
    TensorReader(Reader& reader, std::uint32_t version, const Destination& destination)
        : reader_(reader),
          version_(version),
          destination_(destination) {}

    Result<Tensor> next() {
        Tensor tensor;
        tensor.name = reader_.text(max_name_bytes);
        const auto number = reader_.number<std::uint8_t>();
        const auto dimension_count = reader_.number<std::uint8_t>();
        if (dimension_count > max_dimension_count)
            return malformed("tensor '" + tensor.name + "' has too many dimensions");
        for (int i = 0; i < dimension_count; ++i)
            tensor.shape.push_back(reader_.number<std::uint64_t>());
        const auto count = count_of(tensor.shape);
        if (!count) return malformed("the shape of tensor '" + tensor.name + "' is too large");
        const auto type = type_of_number(number);
        if (!type) return malformed("tensor '" + tensor.name + "' is of an unknown type");
        if ((number & part_flag) != 0) {
            tensor.part.begin = reader_.number<std::uint64_t>();
            tensor.part.whole_count = reader_.number<std::uint64_t>();
            auto fault = fault_of(tensor.part, *count);
            if (!is_part(tensor.part)) fault = "is a part of nothing";
            if (!fault.empty()) return malformed("tensor '" + tensor.name + "' " + fault);
        }
        with_type(*type, [&]<class T>(T) { read<T>(tensor, *type, *count); });
        return tensor;
    }

    /// Whether the values of the last tensor are in the result.
    bool is_kept() const { return is_kept_; }
    /// Refuses unless every target was found and fits.
    Result<> fit() const {
        if (!unfit_.empty()) return unfit(unfit_);
        for (const auto& target : destination_.targets)
            if (found_.count(target.name) == 0)
                return unfit("it has no tensor '" + target.name + "'");
        return {};
    }

private:
    std::optional<ElementType> type_of_number(std::uint8_t number) const {
        const auto value = static_cast<std::uint8_t>(number & ~part_flag);
        if (value == 0 || value > element_types.size()) return std::nullopt;
        const auto type = element_types[value - std::size_t{1}];
        const bool is_new = is_of_version_2(type) || value != number;
        if (is_new && version_ < 2) return std::nullopt;
        return type;
    }

    template <class T>
    void read(Tensor& tensor, ElementType type, std::uint64_t count) {
        if (is_part(tensor.part) && destination_.place_of_part)
            return read_part<T>({tensor.name, type, count, tensor.part});
        const auto target = std::find_if(
            destination_.targets.begin(), destination_.targets.end(), [&](const auto& one) {
                return one.name == tensor.name;
            });
        const bool has_target = target != destination_.targets.end();
        if (has_target) note(*target, type, count);
        is_kept_ = !has_target && !destination_.is_check;
        if (is_kept_)
            tensor.values = reader_.values<T>(count);
        else if (count_is_too_large<T>(count))
            reader_.fail();
        else if (has_target && !destination_.is_check && unfit_.empty())
            reader_.read(target->values, count * sizeof(T));
        else
            reader_.skip(count * sizeof(T));
    }

    template <class T>
    void read_part(const PartHeader& part) {
        is_kept_ = false;
        if (count_is_too_large<T>(part.count)) return reader_.fail();
        PartRange range;
        if (unfit_.empty()) {
            auto placed = destination_.place_of_part(part);
            if (placed)
                range = *placed;
            else
                unfit_ = placed.error().context;
        }
        if (destination_.is_check) range = {};
        reader_.skip(range.first * sizeof(T));
        if (range.count > 0) reader_.read(range.target, range.count * sizeof(T));
        reader_.skip((part.count - range.first - range.count) * sizeof(T));
    }

    template <class T>
    bool count_is_too_large(std::uint64_t count) const {
        return count > reader_.left() / sizeof(T);
    }

    void note(const TensorTarget& target, ElementType type, std::uint64_t count) {
        found_.insert(target.name);
        if (!unfit_.empty()) return;
        if (type != target.type)
            unfit_ = "tensor '" + target.name + "' is not of type " + name_of(target.type);
        else if (count != target.count)
            unfit_ = "tensor '" + target.name + "' has " + std::to_string(count) +
                     " values, expected are " + std::to_string(target.count);
    }

    Reader& reader_;
    std::uint32_t version_;
    const Destination& destination_;
    std::set<std::string> found_;
    std::string unfit_;
    bool is_kept_ = true;
};

/// Reads everything between the preamble and the checksum.
Result<Checkpoint> read_body(
    Reader& reader, std::uint32_t version, const Destination& destination) {
    Checkpoint checkpoint;
    checkpoint.round = reader.number<std::uint64_t>();
    checkpoint.step = reader.number<std::uint64_t>();
    if (checkpoint.round == Checkpoint::no_round) return malformed("it has no round");
    const auto text_count = reader.number<std::uint32_t>();
    const auto tensor_count = reader.number<std::uint32_t>();
    if (text_count > max_text_count || tensor_count > max_tensor_count)
        return malformed("too many texts or tensors");

    for (std::uint32_t i = 0; i < text_count && reader.ok(); ++i) {
        auto key = reader.text(max_name_bytes);
        auto value = reader.text(max_text_bytes);
        if (!reader.ok()) break;
        if (const auto fault = fault_of_name(key); !fault.empty()) return malformed(fault);
        if (!checkpoint.texts.emplace(key, std::move(value)).second)
            return malformed("text '" + key + "' comes twice");
    }
    std::set<std::string> names;
    TensorReader tensors(reader, version, destination);
    for (std::uint32_t i = 0; i < tensor_count && reader.ok(); ++i) {
        auto tensor = tensors.next();
        if (!reader.ok()) break;
        if (!tensor) return tensor.error();
        if (const auto fault = fault_of_name(tensor->name); !fault.empty()) return malformed(fault);
        if (!names.insert(tensor->name).second)
            return malformed("tensor '" + tensor->name + "' comes twice");
        if (tensors.is_kept()) checkpoint.tensors.push_back(std::move(*tensor));
    }
    if (!reader.ok()) return malformed("a length points past the end of the file");
    if (reader.left() != 0) return malformed("bytes follow the last tensor");
    if (const auto fit = tensors.fit(); !fit) return fit.error();
    return checkpoint;
}

}  // namespace

error_code make_error_code(Fault fault) {
    static const FaultCategory category;
    return {static_cast<int>(fault), category};
}

bool does_not_fit(const Failure& failure) {
    return failure.code == make_error_code(Fault::unfit);
}

std::optional<std::uint64_t> count_of(const std::vector<std::uint64_t>& shape) {
    std::uint64_t count = 1;
    for (const auto dimension : shape)
        if (__builtin_mul_overflow(count, dimension, &count)) return std::nullopt;
    return count;
}

std::size_t bytes_of(ElementType type) {
    std::size_t bytes = 0;
    with_type(type, [&](auto element) { bytes = sizeof element; });
    return bytes;
}

Result<> check_types(std::span<const TensorView> views) {
    for (const auto& view : views)
        if (bytes_of(view.type) == 0)
            return malformed("tensor '" + view.name + "' is of a type that no checkpoint has");
    return {};
}

Result<> check(const Checkpoint& checkpoint) {
    if (checkpoint.round == Checkpoint::no_round) return malformed(no_round_text);
    if (checkpoint.texts.size() > max_text_count || tensor_count_of(checkpoint) > max_tensor_count)
        return malformed("too many texts or tensors");
    for (const auto& [key, value] : checkpoint.texts) {
        if (const auto fault = fault_of_name(key); !fault.empty()) return malformed(fault);
        if (value.size() > max_text_bytes) return malformed("text '" + key + "' is too long");
    }
    std::set<std::string_view> names;
    const auto fault_of_next = [&](const std::string& name) {
        auto fault = fault_of_name(name);
        if (!fault.empty() || names.insert(name).second) return fault;
        return "tensor '" + name + "' comes twice";
    };
    for (const auto& tensor : checkpoint.tensors) {
        if (auto fault = fault_of_next(tensor.name); !fault.empty()) return malformed(fault);
        if (const auto fault = fault_of(tensor); !fault.empty())
            return malformed("tensor '" + tensor.name + "' " + fault);
    }
    for (const auto& view : checkpoint.views) {
        if (auto fault = fault_of_next(view.name); !fault.empty()) return malformed(fault);
        if (!is_part(view.part)) continue;
        if (const auto fault = fault_of(view.part, view.count); !fault.empty())
            return malformed("tensor '" + view.name + "' " + fault);
    }
    return check_types(checkpoint.views);
}

Result<> encode(const Checkpoint& checkpoint, const Sink& sink) {
    Writer writer{sink};
    writer.raw(magic.data(), magic.size());
    writer.number(version_of(checkpoint));
    writer.number(std::uint64_t{encoded_size(checkpoint)});
    writer.number(checkpoint.round);
    writer.number(checkpoint.step);
    writer.number(static_cast<std::uint32_t>(checkpoint.texts.size()));
    writer.number(static_cast<std::uint32_t>(tensor_count_of(checkpoint)));
    for (const auto& [key, value] : checkpoint.texts) {
        writer.text(key);
        writer.text(value);
    }
    write_tensors(writer, checkpoint);
    return writer.finish();
}

namespace {

/// Requires: the span has the whole preamble.
std::uint32_t version_in(std::span<const std::byte> preamble) {
    std::uint32_t version = 0;
    std::memcpy(&version, preamble.data() + magic.size(), sizeof version);
    return version;
}

}  // namespace

Result<std::uint64_t> file_size_in(std::span<const std::byte> preamble) {
    const auto begins_as =
        std::as_bytes(std::span{magic}).first(std::min(magic.size(), preamble.size()));
    if (!std::equal(begins_as.begin(), begins_as.end(), preamble.begin()))
        return Failure{Fault::not_a_checkpoint, {}};
    if (preamble.size() < preamble_bytes) return Failure{Fault::cut_short, {}};
    std::uint64_t size = 0;
    std::memcpy(&size, preamble.data() + magic.size() + sizeof(std::uint32_t), sizeof size);
    if (version_in(preamble) > format_version) return Failure{Fault::later_version, {}};
    return size;
}

Result<Checkpoint> decode(
    const Source& source, std::uint64_t file_size, const Destination& destination) {
    Reader reader{source, file_size};
    std::array<std::byte, preamble_bytes> preamble{};
    const auto first = static_cast<std::size_t>(std::min<std::uint64_t>(file_size, preamble_bytes));
    reader.read(preamble.data(), first);
    if (!reader.source_result()) return reader.source_result().error();
    const auto size = file_size_in(std::span{preamble}.first(first));
    if (!size) return size.error();
    if (file_size < *size) return Failure{Fault::cut_short, {}};
    if (file_size > *size || file_size < header_bytes + checksum_bytes)
        return malformed("the size in the file is not the file's");

    reader.begin_body();
    auto checkpoint = read_body(reader, version_in(preamble), destination);
    const bool is_undamaged = reader.has_right_sum();
    if (!reader.source_result()) return reader.source_result().error();
    if (!is_undamaged) return Failure{Fault::damaged, {}};
    return checkpoint;
}

Result<Checkpoint> decode(std::span<const std::byte> file, const Destination& destination) {
    auto rest = file;
    const Source source = [&rest](std::span<std::byte> target) -> Result<> {
        std::copy_n(rest.begin(), target.size(), target.begin());
        rest = rest.subspan(target.size());
        return {};
    };
    return decode(source, file.size(), destination);
}

}  // namespace ddprun::checkpoint
