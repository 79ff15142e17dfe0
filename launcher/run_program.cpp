// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_program.hpp"

#include "launcher/pipe.hpp"
#include "rendezvous/base/text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_error_bytes = 4096;
constexpr Duration time_to_end = 2s;

/// The process id, or the negative error.
pid_t start(const std::vector<std::string>& command, int output, int errors) {
    const auto arguments = pointers_to(command);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    pid_t child = -1;
    const int failed =
        ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed == 0 ? child : -failed;
}

/// Appends what can be read now. Returns false at the end.
bool read_some(int input, std::string& text) {
    std::array<char, 4096> chunk{};
    const auto size = ::read(input, chunk.data(), chunk.size());
    if (size > 0) text.append(chunk.data(), static_cast<std::size_t>(size));
    return size > 0 || (size < 0 && errno == EINTR);
}

/// Reads both to their ends. Returns what stopped it earlier.
std::string read_all(int output, int errors, const ProgramLimits& limits, ProgramEnd& end) {
    const auto deadline = Clock::now() + limits.time;
    std::array<pollfd, 2> inputs{pollfd{output, POLLIN, 0}, pollfd{errors, POLLIN, 0}};
    while (inputs[0].fd >= 0 || inputs[1].fd >= 0) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        if (left <= 0ms) return "it took longer than " + seconds_text(limits.time);
        const int ready = ::poll(inputs.data(), inputs.size(), static_cast<int>(left.count()));
        if (ready < 0 && errno != EINTR) return std::strerror(errno);
        if (ready <= 0) continue;
        if (inputs[0].revents != 0 && !read_some(output, end.output)) inputs[0].fd = -1;
        if (inputs[1].revents != 0 && !read_some(errors, end.errors)) inputs[1].fd = -1;
        if (end.output.size() > limits.bytes)
            return "it wrote more than " + std::to_string(limits.bytes) + " bytes";
        if (end.errors.size() > most_error_bytes)
            end.errors.erase(0, end.errors.size() - most_error_bytes);
    }
    return {};
}

/// The wait status of a program that is about to end; none when it goes on. Where SIGCHLD is
/// ignored, as this process may inherit it, the status is lost, and counts as success.
std::optional<int> reap(pid_t child) {
    const auto deadline = Clock::now() + time_to_end;
    for (;;) {
        int status = 0;
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child) return status;
        if (ended < 0 && errno == ECHILD) return 0;
        if (Clock::now() >= deadline) return std::nullopt;
        ::poll(nullptr, 0, 10);
    }
}

/// SIGTERM first: a debugger then leaves the process that it has stopped.
void end_child(pid_t child) {
    for (const int signal : {SIGTERM, SIGKILL}) {
        ::kill(child, signal);
        if (reap(child)) return;
    }
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& command, const ProgramLimits& limits) {
    ProgramEnd end;
    Pipe output;
    Pipe errors;
    if (!output.open() || !errors.open()) {
        end.errors = std::strerror(errno);
        return end;
    }
    const pid_t child = start(command, output.write_end, errors.write_end);
    if (child < 0) {
        end.errors = std::strerror(-child);
        return end;
    }
    for (auto* const pipe : {&output, &errors})
        ::close(std::exchange(pipe->write_end, -1));
    auto stopped_by = read_all(output.read_end, errors.read_end, limits, end);
    std::optional<int> status;
    if (stopped_by.empty()) status = reap(child);
    if (!status) end_child(child);
    if (!status && stopped_by.empty()) stopped_by = "it closed its output, and went on";
    if (!stopped_by.empty()) end.errors = std::move(stopped_by);
    end.is_success = status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
    return end;
}

}  // namespace ddprun::launcher
