// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::test {

/// A TCP port that was free a moment ago, and that no caller gets that asks for any port. For
/// programs that need a number; where a program can take port 0 and print its port, that is better.
std::uint16_t free_port();

}  // namespace ddprun::test
