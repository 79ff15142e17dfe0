// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace gpu {

/// An error of the driver.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Throws "reserving 12 MB: out of memory (CUDA_ERROR_OUT_OF_MEMORY 2)", where `doing` is
/// "reserving 12 MB".
void check(CUresult result, const std::string& doing);
inline void check(CUresult result, const char* doing) {
    if (result != CUDA_SUCCESS) check(result, std::string{doing});
}

}  // namespace gpu
