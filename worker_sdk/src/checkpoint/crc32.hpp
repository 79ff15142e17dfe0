// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ddprun::checkpoint {

inline constexpr std::uint32_t polynomial = 0xedb88320;  // reflected
inline constexpr std::size_t slices = 8;

using Table = std::array<std::array<std::uint32_t, 256>, slices>;

/// table[k][b]: the effect of byte b on the remainder when k more bytes follow it.
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

inline constexpr Table crc_table = make_table();

/// The CRC-32 of zlib, PNG and Ethernet, eight bytes at a time ("slicing by 8"): eight independent
/// look-ups.
class Crc32 {
public:
    void add(std::span<const std::byte> bytes) {
        auto remainder = remainder_;
        const auto* at = bytes.data();
        std::size_t left = bytes.size();
        for (; left >= slices; at += slices, left -= slices) {
            std::uint64_t word = 0;
            std::memcpy(&word, at, sizeof word);
            word ^= remainder;
            remainder = 0;
            for (std::size_t k = 0; k < slices; ++k)
                remainder ^= crc_table[slices - 1 - k][(word >> (8 * k)) & 0xff];
        }
        for (; left > 0; ++at, --left)
            remainder = (remainder >> 8) ^
                        crc_table[0][(remainder ^ std::to_integer<std::uint32_t>(*at)) & 0xff];
        remainder_ = remainder;
    }
    std::uint32_t value() const { return ~remainder_; }

private:
    std::uint32_t remainder_ = 0xffffffff;
};

}  // namespace ddprun::checkpoint
