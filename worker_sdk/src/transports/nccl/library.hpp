// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/group_error.hpp"

#include <string>
#include <variant>
#include <vector>

namespace ddprun::nccl {

/// One place to look for a library.
struct Place {
    std::string path;
    /// Uses the library only if the process has loaded it already.
    bool only_loaded = false;
    /// The user named this place: no later place is tried.
    bool is_last = false;

    bool operator==(const Place&) const = default;
};

/// Where NCCL is searched: the copy that the process has already loaded, $DDPRUN_NCCL, where the
/// dynamic linker looks, then the PyPI packages of the active Python environment ($VIRTUAL_ENV,
/// $CONDA_PREFIX). Reads folders.
std::vector<Place> nccl_places(const environment::Lookup& lookup);
/// Returns a UsageError when the environment makes NCCL's calls wait for the peers: no deadline,
/// abort or check for a dead peer could end them.
groups::Outcome refuse_blocking(const environment::Lookup& lookup);
/// Places of the driver: only where the dynamic linker looks, since it belongs to the kernel
/// module.
std::vector<Place> driver_places();

/// A library that is never closed.
class Library {
public:
    /// Opens the library at the first place that has it. `what` names it in errors: "NCCL".
    static std::variant<Library, groups::GroupError> open(
        const std::string& what, const std::vector<Place>& places);

    const std::string& path() const { return path_; }

    /// Fills in a pointer of a table, and records a missing name.
    template <class Function>
    void require(Function*& function, const char* name) {
        find(function, name);
        if (!function) missing_ += std::string{missing_.empty() ? "" : ", "} + name;
    }
    template <class Function>
    void find(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(symbol(name));
    }
    /// Names that `require` did not find; empty when it found all.
    const std::string& missing() const { return missing_; }

private:
    void* symbol(const char* name) const;

    void* handle_ = nullptr;
    std::string path_;
    std::string missing_;
};

}  // namespace ddprun::nccl
