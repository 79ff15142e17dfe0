// SPDX-License-Identifier: Apache-2.0
#include "libraries.hpp"

#include "unavailable.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <filesystem>

namespace gpu {
namespace {

constexpr const char* driver_file = "libcuda.so.1";

bool opens(const std::string& path, int flags = 0) {
    return ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | flags) != nullptr;
}

std::string last_error(const std::string& path) {
    const char* reason = ::dlerror();
    return reason ? reason : path + " cannot be opened";
}

std::string value_of(const char* variable) {
    const char* value = std::getenv(variable);
    return value ? value : "";
}

std::vector<std::string> matching(const std::string& pattern) {
    std::vector<std::string> paths;
    glob_t found{};
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    return paths;
}

std::vector<std::string> in_environment(const Wanted& wanted) {
    std::vector<std::string> paths;
    for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        const auto environment = value_of(variable);
        if (environment.empty()) continue;
        for (const auto& package : wanted.packages)
            for (auto& path : matching(
                     environment + "/lib/python3*/site-packages/" + package + "/" + wanted.file))
                paths.push_back(std::move(path));
    }
    return paths;
}

std::string beside_program(const std::string& file) {
    std::error_code ignored;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
    return (program.parent_path() / file).string();
}

}  // namespace

void open_for_all(const Wanted& wanted) {
    if (opens(wanted.file, RTLD_NOLOAD)) return;
    ::dlerror();  // a copy that is not loaded yet is no error
    if (const auto given = value_of(wanted.variable.c_str()); !given.empty()) {
        if (opens(given)) return;
        throw Unavailable(wanted.variable + ": " + last_error(given));
    }
    if (opens(wanted.file)) return;
    const auto reason = last_error(wanted.file);
    for (const auto& path : in_environment(wanted))
        if (opens(path)) return;
    for (const auto& folder : wanted.folders)
        if (opens(folder + "/" + wanted.file)) return;
    throw Unavailable(
        wanted.what + " cannot be opened (" + reason + "): " + wanted.remedy + ", or say with " +
        wanted.variable + "=PATH where it is");
}

void open_driver() {
    if (opens(driver_file)) return;
    throw Unavailable(
        "a GPU needs the CUDA driver, and there is none here (" + last_error(driver_file) +
        "): install NVIDIA's driver, or in a container start it with --gpus");
}

void require_part(const std::string& file, const std::string& remedy) {
    const auto path = beside_program(file);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) throw Unavailable(path + " is missing: " + remedy);
}

void* open_part(const std::string& file, const std::string& name) {
    const auto path = beside_program(file);
    void* const part = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (part == nullptr) throw Unavailable(last_error(path));
    void* const function = ::dlsym(part, name.c_str());
    if (function == nullptr) throw Unavailable(path + " has no " + name + ": build it again");
    return function;
}

}  // namespace gpu
