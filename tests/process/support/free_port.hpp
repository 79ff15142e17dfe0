// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::test {

/// A TCP port of the loopback that was free a moment ago. For programs that must be told one;
/// where a program can take port 0 and say which it got, that is better.
std::uint16_t free_port();

}  // namespace ddprun::test
