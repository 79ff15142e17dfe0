// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::checkpoint {

/// The CRC-32 of zlib, PNG and Ethernet.
std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace ddprun::checkpoint
