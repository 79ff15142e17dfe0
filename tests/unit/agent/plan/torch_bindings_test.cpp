// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/cpu_binding.hpp"
#include "tests/support/machines.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

/// In the form in which tests/interop/binding/ask_torch.py prints PyTorch's bindings.
std::string our_bindings() {
    std::string text;
    for (const auto& [name, description] : all_machines) {
        const auto described = machine(description);
        const auto gpu_count = static_cast<int>(described.gpus.size());
        for (const std::string mode : {"node", "socket", "exclusive", "core-complex"}) {
            const auto plan =
                plan_binding(*parse_binding_mode(mode), described, described.gpus, gpu_count);
            int gpu = 0;
            for (const auto& worker : plan.workers)
                text += std::string{name} + ' ' + mode + ' ' + std::to_string(gpu++) + ' ' +
                        describe(worker.cpus) + '\n';
        }
    }
    return text;
}

}  // namespace

TEST_CASE("every GPU of every machine gets the CPUs that PyTorch's own binding gives it") {
    std::ifstream file(DDPRUN_SOURCE_DIR "/tests/interop/binding/torch_bindings.txt");
    const std::string theirs{std::istreambuf_iterator<char>{file}, {}};

    REQUIRE_FALSE(theirs.empty());
    CHECK(our_bindings() == theirs);
}
