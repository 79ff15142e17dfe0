// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <regex>
#include <string>
#include <vector>

using namespace ddprun::rules;

namespace {

/// The enumerators of wire::Query, as they are written there.
std::vector<std::string> queries() {
    const auto code = without_comments(text_of("rendezvous/wire/query.hpp"));
    const auto begin = code.find("enum class Query");
    const auto body = code.substr(begin, code.find("};", begin) - begin);
    std::vector<std::string> names;
    const std::regex enumerator{R"((\w+) = \d+)"};
    for (std::sregex_iterator match{body.begin(), body.end(), enumerator}, end; match != end;
         ++match)
        names.push_back((*match)[1]);
    return names;
}

/// compare_set -> CompareSet
std::string type_name(const std::string& enumerator) {
    std::string name;
    bool starts_word = true;
    for (const char c : enumerator) {
        if (c == '_') {
            starts_word = true;
            continue;
        }
        name += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
        starts_word = false;
    }
    return name;
}

std::string upper(std::string text) {
    for (auto& c : text)
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

bool mentions(const std::string& text, const std::string& word) {
    return std::regex_search(text, std::regex{"\\b" + word + "\\b"});
}

}  // namespace

TEST_CASE("each query has a row in the format page, a round-trip sample and an arm in the store") {
    const auto format = text_of("rendezvous/wire/FORMAT.md");
    std::string samples;
    for (const auto& file : sources({"tests/unit/rendezvous/wire"}))
        samples += file.code;
    std::string store;
    for (const auto& file : sources({"rendezvous/store"}))
        store += file.code;

    REQUIRE(queries().size() == 19);
    for (const auto& query : queries()) {
        CAPTURE(query);
        CHECK(std::regex_search(format, std::regex{"\\|[^\\n]*\\b" + upper(query) + "\\b"}));
        CHECK(mentions(samples, type_name(query)));
        CHECK(mentions(store, "(wire::)?" + type_name(query)));
    }
}
