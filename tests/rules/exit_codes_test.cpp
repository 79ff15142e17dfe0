// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/exit_codes.hpp"

#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;

TEST_CASE("the page of exit codes has every exit code, with the same words") {
    const auto page = rules::text_of("docs/exit-codes.md");
    for (const auto& row : exit_codes::table) {
        const auto line =
            "| " + std::to_string(row.code) + " | " + std::string{row.meaning} + " |\n";
        CAPTURE(line);
        CHECK(page.find(line) != std::string::npos);
    }
}

TEST_CASE("no file has an exit code of its own") {
    std::vector<std::string> found;
    for (const auto& file : rules::sources({"agent", "launcher", "rendezvous/coordinator"}))
        for (const auto* word : {"80", "81", "82", "83", "84", "126", "127"})
            for (const auto& place : file.uses_of(word))
                found.push_back(place + ": " + word);
    CHECK_MESSAGE(found.empty(), rules::listed(found));
}
