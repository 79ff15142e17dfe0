// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace gpu {

/// This machine or build lacks something that the user can install: one line that names it and the
/// remedy. Programs exit with 2.
struct Unavailable : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace gpu
