// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/start_failure.hpp"

#include <sys/resource.h>

#include <fstream>

namespace ddprun {
namespace {

/// The pids limit of the container's control group; empty when there is none.
std::string pids_max() {
    for (const auto* path : {"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"}) {
        std::ifstream file(path);
        std::string text;
        if (std::getline(file, text)) return text;
    }
    return {};
}

}  // namespace

std::string describe_start_failure(const std::error_code& code, const std::string& otherwise) {
    if (code != std::errc::resource_unavailable_try_again) return otherwise;
    rlimit limit{};
    ::getrlimit(RLIMIT_NPROC, &limit);
    std::string text = "no further thread or process could be started: this user may have ";
    text += limit.rlim_cur == RLIM_INFINITY ? "any number" : std::to_string(limit.rlim_cur);
    text += " of them (RLIMIT_NPROC, ulimit -u)";
    if (const auto most = pids_max(); !most.empty() && most != "max")
        text += ", this container " + most + " (pids.max)";
    return text;
}

}  // namespace ddprun
