// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/env_defaults.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

/// The facts that a pod of an Indexed Job has about its job. The kubelet writes the pod's names
/// into /etc/hosts; those of the job's first pod differ only by the index.
namespace ddprun::launcher {

struct IndexedPod {
    int index = 0;
    /// The job's name.
    std::string job;
    /// The full name of the pod of index 0; empty: it cannot be determined here.
    std::string first_host;
};

/// None without JOB_COMPLETION_INDEX, and in a worker of another ddprun. `host_name` is the
/// pod's own, `read_hosts` returns the text of /etc/hosts.
std::optional<IndexedPod> read_indexed_pod(
    const Environment& environment,
    std::string_view host_name,
    const std::function<std::string()>& read_hosts);

}  // namespace ddprun::launcher
