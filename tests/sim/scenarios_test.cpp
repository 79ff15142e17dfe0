// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/script.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

std::vector<fs::path> scenarios() {
    std::vector<fs::path> paths;
    for (const auto& entry :
         fs::directory_iterator{fs::path{DDPRUN_SOURCE_DIR} / "tests/sim/scenarios"})
        if (entry.path().extension() == ".txt") paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

}  // namespace

TEST_CASE("every story happens as it is written (DDPRUN_REWRITE=1 writes them again)") {
    const char* rewrite = std::getenv("DDPRUN_REWRITE");
    const bool is_rewriting = rewrite != nullptr && std::string{rewrite} == "1";
    const auto paths = scenarios();
    CHECK(paths.size() >= 5);
    for (const auto& path : paths) {
        CAPTURE(path.filename().string());
        const auto written = text_of(path);
        const auto played = ddprun::sim::play(written);
        // A story with a line that could not be played, or that breaks an invariant, is always
        // wrong.
        CHECK(played.find("\n!") == std::string::npos);
        if (is_rewriting)
            std::ofstream{path, std::ios::binary} << played;
        else
            CHECK(played == written);
        // Played again: one seed gives one history.
        CHECK(ddprun::sim::play(written) == played);
    }
}
