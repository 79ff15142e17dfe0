// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <stdlib.h>

#include <filesystem>
#include <string>

/// A folder of its own for each test, gone at its end.
struct TemporaryFolder {
    TemporaryFolder() {
        auto pattern = (std::filesystem::temp_directory_path() / "ddprun-test-XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path = pattern;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() { std::filesystem::remove_all(path); }

    std::string in(const std::string& name) const { return path + "/" + name; }

    std::string path;
};
