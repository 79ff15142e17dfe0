// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::test {

/// A TCP port that was free a moment ago, and that nobody is given who asks for any. For programs
/// that must be told one; where a program can take port 0 and say which it got, that is better.
std::uint16_t free_port();

}  // namespace ddprun::test
