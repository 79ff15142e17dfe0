// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/worker_spec.hpp"

namespace ddprun::agent {

std::string entrypoint_name(const WorkerSpec& spec) {
    // Only the launcher puts -u there: it asks Python not to keep its output back.
    const bool is_python = spec.arguments.size() > 1 && spec.arguments[1] == "-u";
    if (!is_python) return spec.arguments.empty() ? spec.program : spec.arguments.front();
    for (std::size_t i = 1; i < spec.arguments.size(); ++i)
        if (!spec.arguments[i].starts_with('-')) return spec.arguments[i];
    return spec.program;
}

}  // namespace ddprun::agent
