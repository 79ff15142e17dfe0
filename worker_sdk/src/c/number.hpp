// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/error.hpp"

#include <string>

namespace ddprun::c {

/// C passes enumerators as numbers, which may have any value.
template <class To>
To checked(int number, To last, const char* name) {
    if (number < 0 || number > static_cast<int>(last))
        throw UsageError(
            std::string{name} + " " + std::to_string(number) + ": expected 0 to " +
            std::to_string(static_cast<int>(last)));
    return static_cast<To>(number);
}

}  // namespace ddprun::c
