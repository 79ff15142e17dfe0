// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/sdk/workers.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ddprun::tests {

/// The folder of the ranks' fake GPUs: their rendezvous and their logs.
class FakeGpus {
public:
    FakeGpus() {
        std::string name = std::filesystem::temp_directory_path() / "ddprun-gpu-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder_ = name;
    }
    FakeGpus(const FakeGpus&) = delete;
    FakeGpus& operator=(const FakeGpus&) = delete;
    ~FakeGpus() { std::filesystem::remove_all(folder_); }

    Workers::Variables variables(const Workers::Variables& more = {}) const {
        Workers::Variables all{
            {"SDK_WORKER_NCCL", "1"},
            {"LD_LIBRARY_PATH", DDPRUN_FAKE_GPU},
            {"FAKE_GPU_FOLDER", folder_},
            {"FAKE_GPU_KERNELS", DDPRUN_FAKE_GPU_KERNELS},
            {"FAKE_NCCL_LOG", folder_ / "calls"}};
        for (const auto& [name, value] : more)
            all[name] = value;
        return all;
    }

    /// The logged calls of NCCL, a line each.
    std::string calls() const {
        std::ifstream file(folder_ / "calls");
        return {std::istreambuf_iterator<char>(file), {}};
    }

private:
    std::filesystem::path folder_;
};

}  // namespace ddprun::tests
