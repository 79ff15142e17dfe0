// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::test {

/// A TCP port that was free a moment ago and that the kernel does not assign to callers that ask
/// for any port. For programs that need a number. A program that can use port 0 and print its port
/// should do that instead.
std::uint16_t free_port();

}  // namespace ddprun::test
