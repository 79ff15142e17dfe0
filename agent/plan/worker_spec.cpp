// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/worker_spec.hpp"

namespace ddprun::agent {

bool is_run_by_python(const WorkerSpec& spec) {
    // Only the launcher puts -u there: with it Python does not buffer its output.
    return spec.arguments.size() > 1 && spec.arguments[1] == "-u";
}

std::string entrypoint_name(const WorkerSpec& spec) {
    if (!is_run_by_python(spec))
        return spec.arguments.empty() ? spec.program : spec.arguments.front();
    for (std::size_t i = 1; i < spec.arguments.size(); ++i)
        if (!spec.arguments[i].starts_with('-')) return spec.arguments[i];
    return spec.program;
}

}  // namespace ddprun::agent
