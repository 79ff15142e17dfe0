// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// The version and build of this program (version.cmake).
namespace ddprun::build {

/// "0.1.0"
extern const std::string_view version;
/// The first 12 digits of the built commit, followed by "-dirty" if files differed from it; empty
/// when the sources are no git checkout.
extern const std::string_view commit;
/// "static" or "dynamic": how the programs are linked.
extern const std::string_view linkage;
/// "g++ 12.2.0" or "clang 14.0.6"
extern const std::string_view compiler;

}  // namespace ddprun::build
