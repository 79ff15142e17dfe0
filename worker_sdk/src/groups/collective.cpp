// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/collective.hpp"

#include <limits>

namespace ddprun::groups {

namespace {

const char* name_of(ElementType type) {
    switch (type) {
        case ElementType::float32: return "float32";
        case ElementType::float64: return "float64";
        case ElementType::int64: return "int64";
        case ElementType::byte: return "byte";
    }
    return "unknown type";
}

template <class T>
void divide_all(void* data, std::size_t count, int world_size) {
    auto* values = static_cast<T*>(data);
    const auto ranks = static_cast<T>(world_size);
    for (std::size_t i = 0; i < count; ++i)
        values[i] /= ranks;
}

Trouble misuse(const Collective& collective, const std::string& what) {
    return {Trouble::Kind::usage, describe(collective) + ": " + what};
}

}  // namespace

std::size_t size_of(ElementType type) {
    switch (type) {
        case ElementType::float32: return sizeof(float);
        case ElementType::float64: return sizeof(double);
        case ElementType::int64: return sizeof(std::int64_t);
        case ElementType::byte: return 1;
    }
    return 0;
}

std::string describe(const Collective& collective) {
    const std::string elements = std::to_string(collective.count) + " " + name_of(collective.type);
    std::string text = "call " + std::to_string(collective.sequence) + ": ";
    switch (collective.kind) {
        case Collective::Kind::all_reduce:
            return text + "all_reduce (" + (collective.op == Op::sum ? "sum" : "average") +
                   ") of " + elements;
        case Collective::Kind::broadcast:
            return text + "broadcast from rank " + std::to_string(collective.root) + " of " +
                   elements;
        case Collective::Kind::all_gather: return text + "all_gather of " + elements;
        case Collective::Kind::barrier: return text + "barrier";
    }
    return text;
}

std::uint32_t tag_of(const Collective& collective) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : describe(collective))
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

Outcome check(const Collective& collective, int world_size) {
    using Kind = Collective::Kind;
    if (collective.kind == Kind::barrier) return {};
    const auto most = std::numeric_limits<std::size_t>::max() /
                      (size_of(collective.type) * static_cast<std::size_t>(world_size));
    if (collective.count > most) return misuse(collective, "more than memory can hold");
    if (collective.count > 0) {
        const bool needs_input = collective.kind == Kind::all_gather;
        if (!collective.data || (needs_input && !collective.input))
            return misuse(collective, "the buffer is a null pointer");
    }
    if (collective.kind == Kind::broadcast &&
        (collective.root < 0 || collective.root >= world_size))
        return misuse(collective, "there are ranks 0 to " + std::to_string(world_size - 1));
    if (collective.kind == Kind::all_reduce && collective.type == ElementType::byte)
        return misuse(collective, "bytes cannot be added");
    return {};
}

void divide(void* data, std::size_t count, ElementType type, int world_size) {
    switch (type) {
        case ElementType::float32: return divide_all<float>(data, count, world_size);
        case ElementType::float64: return divide_all<double>(data, count, world_size);
        case ElementType::int64: return divide_all<std::int64_t>(data, count, world_size);
        case ElementType::byte: return;
    }
}

}  // namespace ddprun::groups
