// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gpu {

/// A library of NVIDIA that a program opens at run time, so that it also starts without it.
struct Wanted {
    /// The name in messages: "cuBLASLt".
    std::string what;
    /// The name for the dynamic linker, with the version that was built against:
    /// "libcublasLt.so.13".
    std::string file;
    /// A variable that, if set, names its path: "DDPRUN_CUBLASLT". Then no other place is tried.
    std::string variable;
    /// Folders within a Python environment's site-packages: "nvidia/cu13/lib".
    std::vector<std::string> packages;
    /// Folders that are tried last.
    std::vector<std::string> folders;
    /// Advice when it is missing: "pip install nvidia-cublas".
    std::string remedy;
};

/// Opens the library for the whole process: libraries opened later may use its functions by name.
/// Tries, in this order: the copy that the process has already loaded, $variable, the places of the
/// dynamic linker, the PyPI package of the active environment ($VIRTUAL_ENV, $CONDA_PREFIX), the
/// folders. The first one that opens is used and never closed. Throws Unavailable.
void open_for_all(const Wanted& wanted);

/// Opens the CUDA driver in the same way; it comes with the kernel module and has no other places.
void open_driver();

/// Checks for a part of this program in a file beside it. Throws Unavailable with `remedy` when it
/// is missing, because the build left it out. Call it before anything is opened.
void require_part(const std::string& file, const std::string& remedy);
/// Opens the part and returns its function `name`. Requires: `open_driver` and the libraries that
/// it uses were opened. Throws Unavailable.
void* open_part(const std::string& file, const std::string& name);

}  // namespace gpu
