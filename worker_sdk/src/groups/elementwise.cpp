// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/elementwise.hpp"

#include "worker_sdk/src/groups/arithmetic.hpp"

namespace ddprun::groups {

namespace {

template <class T, class Operation>
void combine(void* out, const void* a, const void* b, std::size_t count) {
    auto* into = static_cast<T*>(out);
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    for (std::size_t i = 0; i < count; ++i)
        into[i] = narrow<T>(Operation::apply(widen(left[i]), widen(right[i])));
}

template <class T>
Combine combiner_of(Op op) {
    switch (op) {
        case Op::sum:
        case Op::average: return combine<T, Sum>;
        case Op::min: return combine<T, Minimum>;
        case Op::max: return combine<T, Maximum>;
        case Op::product: return combine<T, Product>;
    }
    return nullptr;
}

template <class T>
void divide_all(void* data, std::size_t count, int world_size) {
    auto* values = static_cast<T*>(data);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = narrow<T>(divided(widen(values[i]), world_size));
}

}  // namespace

std::size_t size_of(ElementType type) {
    return with_type(type, [](auto element) { return sizeof element; });
}

const char* name_of(ElementType type) {
    switch (type) {
        case ElementType::float32: return "float32";
        case ElementType::float64: return "float64";
        case ElementType::float16: return "float16";
        case ElementType::bfloat16: return "bfloat16";
        case ElementType::int32: return "int32";
        case ElementType::int64: return "int64";
        case ElementType::uint8: return "uint8";
        case ElementType::int8: return "int8";
        case ElementType::uint32: return "uint32";
        case ElementType::uint64: return "uint64";
        case ElementType::boolean: return "bool";
        case ElementType::float8_e4m3: return "float8_e4m3";
        case ElementType::float8_e5m2: return "float8_e5m2";
    }
    return "unknown type";
}

const char* name_of(Op op) {
    switch (op) {
        case Op::sum: return "sum";
        case Op::average: return "average";
        case Op::min: return "min";
        case Op::max: return "max";
        case Op::product: return "product";
    }
    return "unknown operation";
}

Combine combiner(ElementType type, Op op) {
    return with_type(type, [op](auto element) { return combiner_of<decltype(element)>(op); });
}

void divide(void* data, std::size_t count, ElementType type, int world_size) {
    with_type(type, [=](auto element) { divide_all<decltype(element)>(data, count, world_size); });
}

}  // namespace ddprun::groups
