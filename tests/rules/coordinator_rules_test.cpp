// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

using namespace ddprun::rules;

namespace {

namespace fs = std::filesystem;

/// The cells of the last column of RULES.md's table.
std::vector<std::string> proofs() {
    const auto page = text_of("rendezvous/coordinator/RULES.md");
    const std::regex row{R"(\n\|[^|]*\|[^|]*\|([^|]*)\|)"};
    std::vector<std::string> cells;
    for (std::sregex_iterator at{page.begin(), page.end(), row}, end; at != end; ++at)
        cells.push_back((*at)[1]);
    return cells;
}

std::vector<std::string> all_of(const std::string& cell, const std::regex& pattern) {
    std::vector<std::string> found;
    for (std::sregex_iterator at{cell.begin(), cell.end(), pattern}, end; at != end; ++at)
        found.push_back((*at)[1]);
    return found;
}

bool has_story(const std::string& number) {
    const fs::directory_iterator stories{fs::path{DDPRUN_SOURCE_DIR} / "tests/sim/scenarios"};
    return std::any_of(begin(stories), end(stories), [&](const fs::directory_entry& story) {
        return story.path().filename().string().starts_with(number + "_");
    });
}

}  // namespace

TEST_CASE("each rule of a job names tests and stories that exist") {
    std::string tests;
    for (const auto& source : sources({"tests/unit/rendezvous/coordinator"}))
        tests += source.text;
    std::vector<std::string> wrong;
    const auto cells = proofs();
    CHECK(cells.size() > 20);
    for (const auto& cell : cells) {
        const std::regex quoted{"\"([^\"]+)\""};
        const auto names = all_of(cell, quoted);
        for (const auto& name : names)
            if (tests.find("\"" + name + "\") {") == std::string::npos)
                wrong.push_back("no such test: " + name);
        const auto unquoted = std::regex_replace(cell, quoted, "");
        const auto stories = all_of(unquoted, std::regex{"[ ,]([0-9][0-9])(?=[ ,])"});
        for (const auto& number : stories)
            if (!has_story(number)) wrong.push_back("no such story: " + number);
    }
    INFO(listed(wrong));
    CHECK(wrong.empty());
}
