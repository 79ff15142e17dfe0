// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun::rules;

namespace {

namespace fs = std::filesystem;

using Row = std::vector<std::string>;

/// The rows of README's table, without its head.
std::vector<Row> rows() {
    const auto page = text_of("README.md");
    const std::string heading = "\n## Where it runs\n";
    const auto begin = page.find(heading);
    REQUIRE(begin != std::string::npos);
    const auto section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
    std::vector<Row> found;
    for (const auto line : ddprun::split(section, '\n')) {
        if (!line.starts_with("| ") || line.starts_with("| Where |")) continue;
        Row cells;
        for (const auto cell : ddprun::split(line.substr(1, line.size() - 2), '|'))
            cells.emplace_back(ddprun::trimmed(cell));
        found.push_back(std::move(cells));
    }
    return found;
}

std::vector<std::string> all_of(const std::string& text, const std::regex& pattern) {
    std::vector<std::string> found;
    for (std::sregex_iterator at{text.begin(), text.end(), pattern}, end; at != end; ++at)
        found.push_back((*at)[1]);
    return found;
}

/// Tests that CMake runs as programs; for a repeated one the name before ": ${...}".
std::vector<std::string> programs_in(const std::string& folder) {
    const fs::path root = DDPRUN_SOURCE_DIR;
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator{root / folder})
        if (entry.path().filename() == "CMakeLists.txt")
            for (const auto& name : all_of(
                     text_of(fs::relative(entry.path(), root).string()),
                     std::regex{R"rule(add_test\(NAME "([^"]+)")rule"}))
                names.push_back(name.substr(0, name.find(": ${")));
    return names;
}

std::vector<std::string> all_tests() {
    auto names = programs_in("tests");
    const std::regex test_case{R"rule(TEST_CASE\(\s*"([^"]+)"\))rule"};
    for (const auto& source : sources({"tests"}))
        for (auto& name : all_of(source.text, test_case))
            names.push_back(std::move(name));
    return names;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("README's table of where it runs is what the tests cover") {
    const auto table = rows();
    CHECK(table.size() >= 7);
    const auto tests = all_tests();
    std::vector<std::string> named;
    std::vector<std::string> wrong;
    for (const auto& row : table) {
        REQUIRE(row.size() == 3);
        if (row[0].find("](docs/") == std::string::npos) wrong.push_back(row[0] + ": no page");
        if (row[1].find("ddprun") == std::string::npos) wrong.push_back(row[0] + ": no line");
        const auto names = all_of(row[2], std::regex{R"(\*([^*]+)\*)"});
        if (names.empty()) wrong.push_back(row[0] + ": no test");
        for (const auto& name : names)
            if (!is_in(tests, name)) wrong.push_back(row[0] + ": no such test: " + name);
        named.insert(named.end(), names.begin(), names.end());
    }
    // And the other direction: each folder with its own tests has a row.
    for (const std::string folder :
         {"tests/slurm",
          "tests/kubernetes",
          "tests/hosts",
          "tests/interop/frameworks",
          "tests/interop/debugger"}) {
        const auto of_place = programs_in(folder);
        const bool has_row =
            std::any_of(of_place.begin(), of_place.end(), [&](const std::string& name) {
                return is_in(named, name);
            });
        if (!has_row) wrong.push_back(folder + ": not in the table");
    }
    INFO(listed(wrong));
    CHECK(wrong.empty());
}
