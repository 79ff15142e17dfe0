// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/jobs/torch_environment.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

namespace ddprun::test {

std::filesystem::path torch_environment() {
    const char* const python = std::getenv("DDPRUN_TORCH_PYTHON");
    if (python != nullptr && *python != '\0')
        return std::filesystem::path{python}.parent_path().parent_path();
    const char* const required = std::getenv("DDPRUN_REQUIRE_TORCH");
    if (required != nullptr && std::string_view{required} == "1")
        FAIL("PyTorch is required and DDPRUN_TORCH_PYTHON names none");
    std::cout << "SKIP unmodified PyTorch jobs: DDPRUN_TORCH_PYTHON names no Python with PyTorch"
              << std::endl;
    return {};
}

Running::Options activated(
    const std::filesystem::path& environment, std::vector<std::string> arguments) {
    Running::Options options;
    options.arguments = std::move(arguments);
    options.environment = {
        {"VIRTUAL_ENV", environment.string()},
        {"PATH", (environment / "bin").string() + ":/usr/local/bin:/usr/bin:/bin"}};
    return options;
}

}  // namespace ddprun::test
