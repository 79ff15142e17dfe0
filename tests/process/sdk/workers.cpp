// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/workers.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>

namespace ddprun::tests {

namespace {

/// A worker that prints nothing for this long hangs.
constexpr int longest_silence_ms = 60'000;

int code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Workers::Workers(int count, std::vector<std::string> scenario, const Variables& variables) {
    ranks_.resize(index(count));
    for (int rank = 0; rank < count; ++rank)
        start(rank, count, scenario, variables);
}

Workers::~Workers() {
    for (auto& rank : ranks_) {
        if (rank.code < 0) {
            ::kill(rank.pid, SIGKILL);
            ::waitpid(rank.pid, nullptr, 0);
        }
        ::close(rank.pipe);
    }
}

void Workers::start(
    int rank, int count, const std::vector<std::string>& scenario, const Variables& variables) {
    Variables all{
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(count)},
        {"LOCAL_RANK", std::to_string(rank)},
        {"LOCAL_WORLD_SIZE", std::to_string(count)},
        {"GROUP_RANK", "0"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(store_.port())},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"DDPRUN_ROUND", "0"}};
    for (const auto& [name, value] : variables)
        all[name] = value;

    std::vector<std::string> texts;
    for (const auto& [name, value] : all)
        if (!value.empty()) texts.push_back(name + "=" + value);
    for (const char* kept :
         {"PATH", "TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS", "CUDA_ON_CPU_ORDER"})
        if (const char* value = ::getenv(kept)) texts.push_back(std::string{kept} + "=" + value);
    std::vector<char*> environment;
    for (auto& text : texts)
        environment.push_back(text.data());
    environment.push_back(nullptr);

    auto words = scenario;
    words.insert(words.begin(), DDPRUN_SDK_WORKER);
    std::vector<char*> arguments;
    for (auto& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);

    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    auto& started = ranks_[index(rank)];
    started.pipe = ends[0];
    started.pid = ::fork();
    REQUIRE(started.pid >= 0);
    if (started.pid == 0) {
        ::dup2(ends[1], STDOUT_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        ::execve(DDPRUN_SDK_WORKER, arguments.data(), environment.data());
        ::_exit(127);
    }
    ::close(ends[1]);
}

bool Workers::read_some(Rank& rank) {
    pollfd waiting{rank.pipe, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, longest_silence_ms);
    REQUIRE_MESSAGE(ready == 1, "a worker hangs; it wrote: ", rank.output);
    std::array<char, 4096> chunk;
    const auto size = ::read(rank.pipe, chunk.data(), chunk.size());
    if (size <= 0) return false;
    rank.output.append(chunk.data(), static_cast<std::size_t>(size));
    return true;
}

void Workers::await_line(const std::string& line) {
    for (auto& rank : ranks_)
        while (rank.output.find(line + "\n") == std::string::npos)
            REQUIRE_MESSAGE(read_some(rank), "a worker ended early; it wrote: ", rank.output);
}

void Workers::kill(int rank, int signal) {
    ::kill(ranks_[index(rank)].pid, signal);
}

int Workers::exit_code(int number) {
    auto& rank = ranks_[index(number)];
    if (rank.code >= 0) return rank.code;
    while (read_some(rank)) {
    }
    int status = 0;
    REQUIRE(::waitpid(rank.pid, &status, 0) == rank.pid);
    rank.code = code_of(status);
    return rank.code;
}

std::string Workers::exit_codes() {
    std::string codes;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        codes += (rank > 0 ? " " : "") + std::to_string(exit_code(static_cast<int>(rank)));
    return codes;
}

long long monotonic_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

long long moment_in(const std::string& output) {
    const std::string before = "after ";
    const auto start = output.find(before);
    return start == std::string::npos ? 0 : std::atoll(output.c_str() + start + before.size());
}

}  // namespace ddprun::tests
