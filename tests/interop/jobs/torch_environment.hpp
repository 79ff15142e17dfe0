// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/support/running.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::test {

/// Importing PyTorch takes seconds, and these machines are small.
inline constexpr std::chrono::seconds torch_timeout{120};

/// The environment with PyTorch; empty after a skip (a failure where PyTorch is required).
std::filesystem::path torch_environment();

/// The environment as `source bin/activate` sets it; a python3 without PyTorch comes later in PATH.
Running::Options activated(
    const std::filesystem::path& environment, std::vector<std::string> arguments);

}  // namespace ddprun::test
