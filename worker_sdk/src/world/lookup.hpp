// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace ddprun::environment {

/// The value of a variable, or null when it is not set (`getenv`, or a table in a test).
using Lookup = std::function<const char*(const char* name)>;

/// Empty when it is not set: the difference matters nowhere.
inline std::string_view value_of(const Lookup& lookup, const char* name) {
    const char* value = lookup(name);
    return value ? std::string_view{value} : std::string_view{};
}

}  // namespace ddprun::environment
