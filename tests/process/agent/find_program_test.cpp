// SPDX-License-Identifier: Apache-2.0
#include "agent/process/find_program.hpp"

#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <cerrno>
#include <filesystem>

using namespace ddprun;
using ddprun::agent::find_program;
using ddprun::test::TempDir;

namespace {

const std::string script = "#!/bin/sh\n";

std::string complaint(const Result<std::string>& result) {
    return result ? "" : result.error().describe();
}

}  // namespace

TEST_CASE("a name is searched on PATH in order, one with a slash is taken as it is") {
    TempDir directory;
    const auto first = directory.write_script("a/tool", script);
    const auto second = directory.write_script("b/tool", script);
    const auto path = directory.path().string();

    CHECK(find_program("tool", path + "/none:" + path + "/a:" + path + "/b").value() == first);
    CHECK(find_program("tool", path + "/b:" + path + "/a").value() == second);
    CHECK(find_program(first, "").value() == first);
}

TEST_CASE("an empty element of PATH is the current directory") {
    TempDir directory;
    directory.write_script("tool", script);
    const auto before = std::filesystem::current_path();

    std::filesystem::current_path(directory.path());
    const auto found = find_program("tool", "/none::/none");
    std::filesystem::current_path(before);

    CHECK(found.value() == "./tool");
}

TEST_CASE("a match that cannot be executed does not end the search") {
    TempDir directory;
    directory.write("a/tool", script);
    std::filesystem::create_directories(directory / "b/tool");
    directory.write_script("c/tool", "#!/no/such/interpreter\n");
    const auto good = directory.write_script("d/tool", script);
    const auto path = directory.path().string();

    CHECK(
        find_program("tool", path + "/a:" + path + "/b:" + path + "/c:" + path + "/d").value() ==
        good);
}

TEST_CASE("an error says what is wrong with which path") {
    TempDir directory;
    const auto path = directory.path().string();
    const auto plain = directory.write("plain", script);
    const auto lost = directory.write_script("lost", "#! /no/such/interpreter -u\nrest\n");

    CHECK(
        complaint(find_program("tool", "/none:/never")) ==
        "tool on PATH /none:/never: No such file or directory");
    CHECK(complaint(find_program("./no/tool", "")) == "./no/tool: No such file or directory");
    CHECK(complaint(find_program(path, "")) == path + ": Is a directory");
    CHECK(complaint(find_program(plain, "")) == plain + " is not executable: Permission denied");
    CHECK(
        complaint(find_program("plain", path)) == plain + " is not executable: Permission denied");
    CHECK(
        complaint(find_program(lost, "")) == lost +
                                                 " names the interpreter /no/such/interpreter in "
                                                 "its #! line: No such file or directory");
    CHECK(find_program("lost", path).error().code == system_code(ENOENT));
    CHECK(find_program("", path).has_error());
}
