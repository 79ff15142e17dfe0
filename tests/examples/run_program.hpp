// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <regex>
#include <string>

struct Outcome {
    int exit_code = -1;
    std::string output;  // both streams
};

/// Runs a command to its end, without a launcher's variables; it may begin with other settings.
inline Outcome run_command(const std::string& line) {
    const auto command =
        "env -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT " + line + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    Outcome outcome;
    std::array<char, 4096> chunk{};
    while (const auto size = std::fread(chunk.data(), 1, chunk.size(), pipe))
        outcome.output.append(chunk.data(), size);
    const int status = ::pclose(pipe);
    REQUIRE(WIFEXITED(status));
    outcome.exit_code = WEXITSTATUS(status);
    return outcome;
}

/// The same for a program of this build.
inline Outcome run(const std::string& program, const std::string& arguments) {
    return run_command("'" DDPRUN_BIN_DIR "/" + program + "' " + arguments);
}

inline std::string last_line(const std::string& text) {
    const auto end = text.find_last_not_of('\n');
    const auto start = text.find_last_of('\n', end);
    return text.substr(start + 1, end - start);
}

/// `pattern` is found in it; ^ and $ are the ends of lines.
inline bool matches(const std::string& text, const char* pattern) {
    return std::regex_search(
        text, std::regex{pattern, std::regex::ECMAScript | std::regex::multiline});
}
