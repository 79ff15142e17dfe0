// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/options.hpp"

#include "tests/rules/tree.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::rules;

TEST_CASE(
    "each option is in the help and on the page of options, and a test reads each of the table") {
    const auto help = ddprun::launcher::help_text();
    const auto page = text_of("docs/options.md");
    const auto tests = text_of("tests/unit/launcher/grammar/options_test.cpp") +
                       text_of("tests/unit/launcher/resolve/job_spec_test.cpp");
    // One test checks every spelling in the table; the meaning of each option has its own test.
    REQUIRE(tests.find("for (const auto& row : option_table())") != std::string::npos);
    for (const auto& row : ddprun::launcher::option_table()) {
        const auto option = "--" + std::string{row.name};
        CAPTURE(option);
        CHECK(help.find(option) != std::string::npos);
        CHECK(page.find("| `" + option) != std::string::npos);
    }
}
