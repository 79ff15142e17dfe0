// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gpu {

/// A library of NVIDIA's that a program opens when it runs, so that it starts without one too.
struct Wanted {
    /// For people: "cuBLASLt".
    std::string what;
    /// As the dynamic linker knows it, with the version that was built against:
    /// "libcublasLt.so.13".
    std::string file;
    /// The variable that says where it is, if set: "DDPRUN_CUBLASLT". Nothing else is tried then.
    std::string variable;
    /// Folders within a Python environment's site-packages: "nvidia/cu13/lib".
    std::vector<std::string> packages;
    /// Folders to look in at last.
    std::vector<std::string> folders;
    /// What to do where there is none: "pip install nvidia-cublas".
    std::string remedy;
};

/// Opens the library for the whole process: what is opened after it may use its functions by name.
/// The copy that the process has already, $variable, where the dynamic linker looks, the PyPI
/// package of the active environment ($VIRTUAL_ENV, $CONDA_PREFIX), the folders: the first one that
/// opens stays for ever. Throws Unavailable.
void open_for_all(const Wanted& wanted);

/// The same for the CUDA driver, which comes with the kernel module and is nowhere else.
void open_driver();

/// A part of this program that lies beside it. Throws Unavailable with `remedy` when it does not:
/// the build left it out. Worth asking before anything is opened.
void require_part(const std::string& file, const std::string& remedy);
/// Opens it and returns its function `name`. `open_driver` and the libraries that it uses come
/// first. Throws Unavailable.
void* open_part(const std::string& file, const std::string& name);

}  // namespace gpu
