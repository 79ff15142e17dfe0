// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun::test {

/// A directory of this test's own, removed with everything in it at the end of the scope.
class TempDir {
public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

    /// Writes a file into it; returns its path.
    std::string write(std::string_view name, std::string_view text) const;
    /// The same, executable.
    std::string write_script(std::string_view name, std::string_view text) const;

private:
    std::filesystem::path path_;
};

/// The whole text of a file; empty when there is none.
std::string read_file(const std::filesystem::path& path);

}  // namespace ddprun::test
