// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::launcher {

/// A value and its origin.
template <class T>
struct From {
    T value;
    /// "--nnodes", "PET_NNODES", "default", or a reason in words.
    std::string origin;
};

}  // namespace ddprun::launcher
