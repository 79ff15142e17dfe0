// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/library.hpp"

#include "worker_sdk/src/environment_names.hpp"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <utility>

namespace ddprun::nccl {

namespace {

using groups::GroupError;

constexpr const char* nccl_name = "libnccl.so.2";

/// Sorted, so that the choice among several Pythons is always the same.
std::vector<std::string> matching(const std::string& pattern) {
    std::vector<std::string> paths;
    glob_t found{};
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    return paths;
}

void* open_at(const Place& place) {
    const int only_loaded = place.only_loaded ? RTLD_NOLOAD : 0;
    return ::dlopen(place.path.c_str(), RTLD_NOW | RTLD_LOCAL | only_loaded);
}

std::string last_error(const Place& place) {
    const char* reason = ::dlerror();
    return reason ? reason : place.path + ": cannot be opened";
}

}  // namespace

std::vector<Place> nccl_places(const environment::Lookup& lookup) {
    std::vector<Place> places{{nccl_name, true, false}};
    if (const std::string given{environment::value_of(lookup, environment::nccl)}; !given.empty()) {
        places.push_back({given, false, true});
        return places;
    }
    places.push_back({nccl_name, false, false});
    for (const char* variable : {environment::virtual_env, environment::conda_prefix}) {
        const std::string folder{environment::value_of(lookup, variable)};
        if (folder.empty()) continue;
        // A conda environment's own package.
        for (auto& path : matching(folder + "/lib/" + nccl_name))
            places.push_back({std::move(path), false, false});
        const auto pattern = folder + "/lib/python3*/site-packages/nvidia/nccl/lib/" + nccl_name;
        for (auto& path : matching(pattern))
            places.push_back({std::move(path), false, false});
    }
    return places;
}

groups::Outcome refuse_blocking(const environment::Lookup& lookup) {
    const std::string value{environment::value_of(lookup, environment::nccl_comm_blocking)};
    // NCCL reads the number in any base, and ignores numbers other than 1.
    if (std::strtoll(value.c_str(), nullptr, 0) != 1) return {};
    return GroupError{
        GroupError::Kind::usage,
        std::string{environment::nccl_comm_blocking} + "=" + value +
            " makes NCCL wait for ever for a peer that is gone: unset it, or set it to 0"};
}

std::vector<Place> driver_places() {
    return {{"libcuda.so.1", false, false}};
}

std::variant<Library, GroupError> Library::open(
    const std::string& what, const std::vector<Place>& places) {
    std::vector<std::string> tried;
    for (const auto& place : places) {
        Library library;
        library.handle_ = open_at(place);
        if (library.handle_) {
            library.path_ = place.path;
            return library;
        }
        if (!place.only_loaded) tried.push_back(last_error(place));
        if (place.is_last) break;
    }
    auto text = what + " cannot be opened";
    if (tried.size() == 1) return GroupError{GroupError::Kind::usage, text + ": " + tried.front()};
    text += "; tried:";
    for (const auto& reason : tried)
        text += "\n  " + reason;
    return GroupError{GroupError::Kind::usage, text};
}

void* Library::symbol(const char* name) const {
    return ::dlsym(handle_, name);
}

}  // namespace ddprun::nccl
