// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::test {

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

    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const auto& entry : std::filesystem::directory_iterator{path})
            all.push_back(entry.path().filename());
        std::sort(all.begin(), all.end());
        return all;
    }

    std::filesystem::path path;
};

}  // namespace ddprun::test
