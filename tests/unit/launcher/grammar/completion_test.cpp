// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/completion.hpp"

#include "launcher/grammar/option_table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace ddprun::launcher;

TEST_CASE("the completion of each shell knows every option and the words of their values") {
    for (const auto* shell : {"bash", "zsh", "fish", "tcsh"}) {
        CAPTURE(shell);
        const auto script = completion_script(shell);
        REQUIRE(script.has_value());
        const std::map<std::string, std::string> before{{"fish", "-l "}, {"tcsh", ""}};
        const auto found = before.find(shell);
        const std::string dashes = found == before.end() ? "--" : found->second;
        for (const auto& row : option_table()) {
            CAPTURE(row.name);
            CHECK(script->find(dashes + std::string{row.name}) != std::string::npos);
        }
        for (const auto* words : {"c10d static", "auto gpu cpu", "bash zsh fish tcsh"})
            CHECK(script->find(words) != std::string::npos);
    }
    CHECK_FALSE(completion_script("ksh").has_value());
}
