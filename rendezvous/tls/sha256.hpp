// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::tls {

/// SHA-256 (FIPS 180-4) as 64 lower-case hexadecimal digits, as sha256sum prints it.
std::string sha256_hex(std::string_view bytes);

}  // namespace ddprun::tls
