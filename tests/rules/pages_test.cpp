// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun::rules;

namespace {

namespace fs = std::filesystem;
const fs::path root = DDPRUN_SOURCE_DIR;

/// All files of the tree, as paths from its root.
const std::vector<std::string>& files() {
    static const auto all = [] {
        std::vector<std::string> paths;
        for (auto entry = fs::recursive_directory_iterator{root};
             entry != fs::recursive_directory_iterator{};
             ++entry) {
            const auto path = entry->path().lexically_relative(root).string();
            if (entry->is_directory() && (path == "build" || path == "shared" || path == ".git"))
                entry.disable_recursion_pending();
            if (entry->is_regular_file()) paths.push_back(path);
        }
        return paths;
    }();
    return all;
}

std::vector<std::string> pages() {
    std::vector<std::string> paths;
    std::copy_if(
        files().begin(), files().end(), std::back_inserter(paths), [](const std::string& path) {
            return path.ends_with(".md");
        });
    return paths;
}

/// Without blocks of code.
std::string prose_of(const std::string& page) {
    std::string prose;
    bool is_fenced = false;
    for (const auto line : ddprun::split(page, '\n')) {
        if (line.starts_with("```")) is_fenced = !is_fenced;
        if (!is_fenced) prose += std::string{line} + "\n";
    }
    return prose;
}

std::vector<std::string> all_of(const std::string& text, const std::regex& pattern) {
    std::vector<std::string> found;
    for (std::sregex_iterator at{text.begin(), text.end(), pattern}, end; at != end; ++at)
        found.push_back((*at)[1]);
    return found;
}

/// The anchor of a heading, as GitHub and others make it: "Two nodes" -> "two-nodes".
std::set<std::string> anchors_of(const std::string& page) {
    std::set<std::string> anchors;
    const auto prose = prose_of(page);
    for (const auto line : ddprun::split(prose, '\n')) {
        if (!line.starts_with("#")) continue;
        const auto heading = line.substr(std::min(line.find(' '), line.size() - 1) + 1);
        std::string anchor;
        for (const char c : heading) {
            const auto byte = static_cast<unsigned char>(c);
            if (c == ' ') anchor += '-';
            if (std::isalnum(byte) != 0 || c == '-' || c == '_' || byte >= 0x80)
                anchor += static_cast<char>(std::tolower(byte));
        }
        anchors.insert(anchor);
    }
    return anchors;
}

bool leads_somewhere(const fs::path& page, const std::string& link) {
    const auto path = link.substr(0, link.find('#'));
    const auto target = path.empty() ? page : (page.parent_path() / path).lexically_normal();
    if (!fs::exists(root / target)) return false;
    if (path.size() == link.size()) return true;
    return anchors_of(text_of(target.string())).count(link.substr(path.size() + 1)) == 1;
}

/// The blocks of code below `<!-- from: PATH -->`, with that path.
std::vector<std::pair<std::string, std::string>> quoted_code(const std::string& page) {
    std::vector<std::pair<std::string, std::string>> blocks;
    const std::string mark = "<!-- from: ";
    for (auto at = page.find(mark); at != page.npos; at = page.find(mark, at + 1)) {
        const auto begin_of_path = at + mark.size();
        const auto path = page.substr(begin_of_path, page.find(' ', begin_of_path) - begin_of_path);
        const auto begin = page.find('\n', page.find("```", at)) + 1;
        blocks.emplace_back(path, page.substr(begin, page.find("```", begin) - begin));
    }
    return blocks;
}

/// Each line without the spaces at its begin.
std::string without_indentation(const std::string& code) {
    return std::regex_replace(code, std::regex{"(^|\\n) +"}, "$1");
}

}  // namespace

TEST_CASE("each link of a page leads to a file, and to a heading that it has") {
    std::vector<std::string> broken;
    for (const auto& page : pages())
        for (const auto& link : all_of(prose_of(text_of(page)), std::regex{R"(\]\(([^)\s]+)\))"}))
            if (!link.starts_with("http") && !leads_somewhere(page, link))
                broken.push_back(page + ": " + link);
    CHECK_MESSAGE(broken.empty(), listed(broken));
}

TEST_CASE("each file that a page names exists") {
    // `a/b.hpp` may be the end of a path: pages use short names for files of their folder.
    std::set<std::string> ends;
    for (const auto& path : files())
        for (std::size_t at = 0; at != std::string::npos;) {
            ends.insert(path.substr(at));
            const auto slash = path.find('/', at);
            at = slash == std::string::npos ? slash : slash + 1;
        }
    const std::regex name{
        R"(`((?:[\w-][\w.-]*/)*[\w-]+\.(?:md|hpp|cpp|cuh?|c|sh|py|txt|svg|awk))`)"};
    std::vector<std::string> broken;
    for (const auto& page : pages())
        for (const auto& file : all_of(prose_of(text_of(page)), name))
            if (ends.count(file) == 0) broken.push_back(page + ": " + file);
    CHECK_MESSAGE(broken.empty(), listed(broken));
}

TEST_CASE("the README of a folder is short: proofs and long tables are in docs/") {
    constexpr long most_words = 1650;
    for (const auto& page : pages()) {
        if (!page.ends_with("README.md")) continue;
        CAPTURE(page);
        std::istringstream words(text_of(page));
        CHECK(
            std::distance(
                std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()) <=
            most_words);
    }
}

TEST_CASE("code that README quotes stands in an example that is built") {
    const auto blocks = quoted_code(text_of("README.md"));
    CHECK(!blocks.empty());
    const auto built = text_of("examples/CMakeLists.txt");
    for (const auto& quoted : blocks) {
        const auto& path = quoted.first;
        const auto& block = quoted.second;
        CAPTURE(path);
        const auto parts = ddprun::split(path, '/');
        REQUIRE((parts.size() == 3 && parts[0] == "examples"));
        CHECK(built.find(std::string{parts[1]}) != std::string::npos);
        CHECK(
            text_of("examples/" + std::string{parts[1]} + "/CMakeLists.txt")
                .find(std::string{parts[2]}) != std::string::npos);
        const auto code = without_indentation(text_of(path));
        std::size_t at = 0;
        // A line "// ..." stands for omitted lines.
        for (auto rest = without_indentation(block); !rest.empty();) {
            const std::string gap = "// ...\n";
            const auto end = std::min(rest.find(gap), rest.size());
            const auto piece = rest.substr(0, end);
            at = code.find(piece, at);
            CHECK_MESSAGE(at != std::string::npos, piece);
            if (at == std::string::npos) break;
            rest.erase(0, std::min(end + gap.size(), rest.size()));
        }
    }
}

TEST_CASE("README begins with what a newcomer looks for, in this order") {
    const auto page = text_of("README.md");
    std::size_t at = 0;
    for (const std::string part :
         {"<!-- bench:begin -->",
          "\n## Installation\n",
          "scripts/package.sh",
          "\nscripts/demo.sh ",
          "\nscripts/test.sh ",
          "<!-- report:begin -->",
          "(docs/demo.svg)",
          "| Event | What happens |",
          "\n## Two nodes\n",
          "```cpp\n",
          "\n## Known limits\n"}) {
        at = page.find(part, at);
        CHECK_MESSAGE(at != std::string::npos, part);
        if (at == std::string::npos) return;
    }
}
