// SPDX-License-Identifier: Apache-2.0
#include "agent/process/find_program.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <utility>

namespace ddprun::agent {
namespace {

/// What the kernel reads of a file to find its `#!` line (BINPRM_BUF_SIZE).
constexpr std::size_t most_interpreter_line_bytes = 256;

/// The program named by the first line of a script; empty for anything else.
std::string interpreter_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string line(most_interpreter_line_bytes, '\0');
    file.read(line.data(), static_cast<std::streamsize>(line.size()));
    line.resize(static_cast<std::size_t>(file.gcount()));
    if (line.rfind("#!", 0) != 0) return {};
    line.resize(std::min(line.find('\n'), line.size()));
    const auto begin = line.find_first_not_of(" \t", 2);
    if (begin == std::string::npos) return {};
    const auto end = line.find_first_of(" \t", begin);
    return line.substr(begin, end == std::string::npos ? end : end - begin);
}

/// Why this path cannot be executed, if it cannot.
std::optional<Failure> obstacle(const std::string& path) {
    struct stat file {};
    if (::stat(path.c_str(), &file) != 0) return Failure{system_code(errno), path};
    if (S_ISDIR(file.st_mode)) return Failure{system_code(EISDIR), path};
    if (!S_ISREG(file.st_mode) || ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0)
        return Failure{system_code(EACCES), path + " is not executable"};
    const auto interpreter = interpreter_of(path);
    if (!interpreter.empty() && ::access(interpreter.c_str(), F_OK) != 0)
        return Failure{
            system_code(errno), path + " names the interpreter " + interpreter + " in its #! line"};
    return std::nullopt;
}

bool is_absent(const Failure& failure) {
    return failure.code == system_code(ENOENT) || failure.code == system_code(ENOTDIR);
}

}  // namespace

Result<std::string> find_program(const std::string& name, std::string_view search_path) {
    if (name.empty()) return Failure{system_code(ENOENT), "program with an empty name"};
    if (name.find('/') != std::string::npos) {
        if (auto failure = obstacle(name)) return std::move(*failure);
        return name;
    }
    std::optional<Failure> most_telling;
    for (std::size_t begin = 0; begin <= search_path.size();) {
        const auto end = std::min(search_path.find(':', begin), search_path.size());
        const auto folder = search_path.substr(begin, end - begin);
        begin = end + 1;
        const auto path = folder.empty() ? "./" + name : std::string{folder} + "/" + name;
        auto failure = obstacle(path);
        if (!failure) return path;
        // A match that cannot run is remembered; a later one may still do, as with execvp.
        const bool is_there = !is_absent(*failure) || failure->context != path;
        if (is_there && !most_telling) most_telling = std::move(failure);
    }
    if (most_telling) return std::move(*most_telling);
    return Failure{system_code(ENOENT), name + " on PATH " + std::string{search_path}};
}

}  // namespace ddprun::agent
