// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/crc32.hpp"

#include <array>
#include <cstring>

namespace ddprun::checkpoint {

namespace {

constexpr std::uint32_t polynomial = 0xedb88320;  // reflected
constexpr std::size_t slices = 8;

using Table = std::array<std::array<std::uint32_t, 256>, slices>;

/// table[k][b]: what byte b does to the remainder when k more bytes follow it.
constexpr Table make_table() {
    Table table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t remainder = byte;
        for (int bit = 0; bit < 8; ++bit)
            remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? polynomial : 0);
        table[0][byte] = remainder;
    }
    for (std::size_t k = 1; k < slices; ++k)
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const auto before = table[k - 1][byte];
            table[k][byte] = (before >> 8) ^ table[0][before & 0xff];
        }
    return table;
}

constexpr Table table = make_table();

}  // namespace

/// Eight bytes at a time ("slicing by 8"): eight independent look-ups.
std::uint32_t crc32(std::span<const std::byte> bytes) {
    std::uint32_t remainder = 0xffffffff;
    const auto* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= slices; at += slices, left -= slices) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        word ^= remainder;
        remainder = 0;
        for (std::size_t k = 0; k < slices; ++k)
            remainder ^= table[slices - 1 - k][(word >> (8 * k)) & 0xff];
    }
    for (; left > 0; ++at, --left)
        remainder =
            (remainder >> 8) ^ table[0][(remainder ^ std::to_integer<std::uint32_t>(*at)) & 0xff];
    return ~remainder;
}

}  // namespace ddprun::checkpoint
