// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun::rules;

namespace {

namespace fs = std::filesystem;

/// The lines that a hunk of a patch expects in a file.
struct Hunk {
    std::string file;
    std::string before;
};

std::vector<Hunk> hunks_of(const std::string& patch) {
    std::vector<Hunk> hunks;
    std::istringstream in{patch};
    std::string file;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("--- a/"))
            file = line.substr(6);
        else if (line.starts_with("@@"))
            hunks.push_back({file, {}});
        else if (!hunks.empty() && (line.starts_with(" ") || line.starts_with("-")))
            hunks.back().before += line.substr(1) + "\n";
    }
    return hunks;
}

std::size_t count_of(const std::string& part, const std::string& text) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++count;
    return count;
}

bool names_its_seeds(const std::string& patch) {
    const auto at = patch.find("\nSeeds: ");
    return at != std::string::npos && std::isdigit(static_cast<unsigned char>(patch[at + 8])) != 0;
}

std::vector<std::string> mutations() {
    std::vector<std::string> paths;
    const fs::path top{DDPRUN_SOURCE_DIR};
    for (const auto& entry : fs::directory_iterator{top / "tests/sim/mutations"})
        paths.push_back(fs::relative(entry.path(), top).string());
    std::sort(paths.begin(), paths.end());
    return paths;
}

}  // namespace

TEST_CASE(
    "every mutation for the simulator still applies, in one place each, and names its seeds") {
    const auto paths = mutations();
    CHECK(paths.size() >= 10);
    std::vector<std::string> broken;
    for (const auto& path : paths) {
        const auto patch = text_of(path);
        const auto hunks = hunks_of(patch);
        if (hunks.empty() || !names_its_seeds(patch)) broken.push_back(path + ": no such patch");
        for (const auto& hunk : hunks)
            if (count_of(hunk.before, text_of(hunk.file)) != 1)
                broken.push_back(path + ": write it again, " + hunk.file + " has changed there");
    }
    CHECK_MESSAGE(broken.empty(), listed(broken));
}
