// SPDX-License-Identifier: Apache-2.0
#include "examples/gpu/libraries.hpp"
#include "examples/gpu/unavailable.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <string>

namespace {

gpu::Wanted no_such_library() {
    return {
        "cuNothing",
        "libddprun_no_such_library.so.1",
        "DDPRUN_TEST_LIBRARY",
        {"nvidia/nothing/lib"},
        {"/nonexistent"},
        "pip install nothing"};
}

std::string words_of(const gpu::Wanted& wanted) {
    try {
        gpu::open_for_all(wanted);
    } catch (const gpu::Unavailable& error) {
        return error.what();
    }
    return "it was opened";
}

}  // namespace

TEST_CASE("a library that is nowhere is named in one line, with what to do about it") {
    const auto words = words_of(no_such_library());

    CHECK(words.rfind("cuNothing cannot be opened (", 0) == 0);
    CHECK(words.find("): pip install nothing, or say with DDPRUN_TEST_LIBRARY=PATH") != words.npos);
    CHECK(words.find('\n') == words.npos);
}

TEST_CASE("the library that a variable names is taken, and nothing else when it cannot be opened") {
    auto wanted = no_such_library();
    // A part of the C library that the dynamic linker finds and that is otherwise unused.
    wanted.file = "libBrokenLocale.so.1";
    ::setenv("DDPRUN_TEST_LIBRARY", "/nonexistent/library.so", 1);
    const auto wrong = words_of(wanted);
    ::setenv("DDPRUN_TEST_LIBRARY", "libBrokenLocale.so.1", 1);
    const auto right = words_of(wanted);
    ::unsetenv("DDPRUN_TEST_LIBRARY");

    CHECK(wrong.rfind("DDPRUN_TEST_LIBRARY: /nonexistent/library.so: ", 0) == 0);
    CHECK(right == "it was opened");
}

TEST_CASE("a program's part that is not beside it is missed with its path") {
    std::string words;
    try {
        gpu::require_part("libddprun_no_such_part.so", "build it");
    } catch (const gpu::Unavailable& error) {
        words = error.what();
    }

    CHECK(words.find("/libddprun_no_such_part.so is missing: build it") != words.npos);
}
