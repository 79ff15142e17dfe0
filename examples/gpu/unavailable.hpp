// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace gpu {

/// This machine or this build lacks something that a person can bring: one line that names it and
/// says what to do. Programs end with 2.
struct Unavailable : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace gpu
