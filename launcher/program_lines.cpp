// SPDX-License-Identifier: Apache-2.0
#include "launcher/program_lines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <sstream>
#include <utility>

namespace ddprun::launcher {
namespace {

/// nvidia-smi hangs when its driver does, so it gets ten seconds (less when a poll returns early).
constexpr int most_looks = 100;
constexpr int look_ms = 100;
constexpr std::size_t most_bytes = 64 * 1024;

/// Returns the process id, or -1.
pid_t start(const std::vector<std::string>& command, int output) {
    std::vector<char*> arguments;
    for (const auto& word : command)
        arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = -1;
    const int failed =
        posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed == 0 ? child : -1;
}

/// Reads until end of file; none when that does not come in time or the output is too long.
std::optional<std::string> read_all(int input) {
    std::string text;
    std::array<char, 4096> chunk{};
    for (int looks = 0; looks < most_looks && text.size() < most_bytes; ++looks) {
        pollfd readable{input, POLLIN, 0};
        const int ready = ::poll(&readable, 1, look_ms);
        if (ready < 0 && errno != EINTR) return std::nullopt;
        if (ready <= 0) continue;
        const auto size = ::read(input, chunk.data(), chunk.size());
        if (size == 0) return text;
        if (size < 0 && errno != EINTR) return std::nullopt;
        if (size > 0) text.append(chunk.data(), static_cast<std::size_t>(size));
    }
    return std::nullopt;
}

/// The wait status of a program that is about to end; none when it hangs in the kernel.
std::optional<int> reap(pid_t child) {
    constexpr int attempts = 200;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        int status = 0;
        if (::waitpid(child, &status, WNOHANG) == child) return status;
        ::poll(nullptr, 0, 10);
    }
    return std::nullopt;
}

}  // namespace

std::string output_of(const std::vector<std::string>& command) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
    const pid_t child = start(command, ends[1]);
    ::close(ends[1]);
    auto text = child > 0 ? read_all(ends[0]) : std::nullopt;
    ::close(ends[0]);
    if (child <= 0) return {};
    if (!text) ::kill(child, SIGKILL);
    const auto status = reap(child);
    if (!text || !status || !WIFEXITED(*status) || WEXITSTATUS(*status) != 0) return {};
    return std::move(*text);
}

int count_lines_of(const std::vector<std::string>& command, std::string_view beginning) {
    int count = 0;
    std::istringstream lines{output_of(command)};
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(beginning)) ++count;
    return count;
}

}  // namespace ddprun::launcher
