// SPDX-License-Identifier: Apache-2.0
#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <regex>
#include <string>
#include <vector>

using namespace ddprun::rules;

namespace {

/// The header of a machine has an Event, an Effect and this.
bool declares_machine(const SourceFile& file) {
    static const std::regex handle{R"(\bvoid handle\(Event \w+, Instant now)"};
    return file.path.ends_with(".hpp") && std::regex_search(file.code, handle);
}

/// The tests of the SDK mirror its folder without `src`.
std::string mirrored(const std::string& header) {
    auto path = header.substr(0, header.rfind('.'));
    if (const auto src = path.find("/src/"); src != std::string::npos) path.erase(src, 4);
    return "tests/unit/" + path;
}

}  // namespace

TEST_CASE("each machine has a test that walks every event in every state") {
    // The walk itself is in the machine's other tests; this checks that it exists.
    static const std::regex walk{
        R"(TEST_CASE\(\s*"[^"]*\b(each|every|any|all)\b[^"]*\b(event|cell)s?\b)"};
    const auto tests = sources({"tests/unit", "tests/sim"});
    std::vector<std::string> missing;
    int machines = 0;
    for (const auto& header : sources({"rendezvous", "agent", "launcher", "worker_sdk"})) {
        if (!declares_machine(header)) continue;
        ++machines;
        bool is_walked = false;
        for (const auto& test : tests)
            is_walked |=
                test.path.starts_with(mirrored(header.path)) && std::regex_search(test.text, walk);
        if (!is_walked) missing.push_back(header.path);
    }
    CHECK(machines > 0);
    CHECK_MESSAGE(missing.empty(), listed(missing));
}

TEST_CASE("no switch over our own enumerations has a default that would hide a forgotten one") {
    // `default` is fine after `case 'c':` and `case 7:`, since there not every value can be listed.
    std::vector<std::string> broken;
    for (const auto& file : sources({"rendezvous", "agent", "launcher", "worker_sdk"})) {
        for (auto at = file.code.find("default:"); at != std::string::npos;
             at = file.code.find("default:", at + 1)) {
            const auto label = file.code.rfind("case ", at);
            const bool is_listed =
                label != std::string::npos &&
                std::isalpha(static_cast<unsigned char>(file.code[label + 5])) != 0;
            if (is_listed) broken.push_back(file.path);
        }
    }
    CHECK_MESSAGE(broken.empty(), listed(broken));
}
