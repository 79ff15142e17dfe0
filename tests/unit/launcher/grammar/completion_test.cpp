// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/completion.hpp"

#include "launcher/grammar/option_table.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::launcher;

TEST_CASE("the completion of each shell knows every option and the words of their values") {
    for (const auto* shell : {"bash", "zsh", "fish"}) {
        CAPTURE(shell);
        const auto script = completion_script(shell);
        REQUIRE(script.has_value());
        const std::string dashes = std::string{shell} == "fish" ? "-l " : "--";
        for (const auto& row : option_table()) {
            CAPTURE(row.name);
            CHECK(script->find(dashes + std::string{row.name}) != std::string::npos);
        }
        for (const auto* words : {"c10d static", "auto gpu cpu", "bash zsh fish"})
            CHECK(script->find(words) != std::string::npos);
    }
    CHECK_FALSE(completion_script("tcsh").has_value());
}
