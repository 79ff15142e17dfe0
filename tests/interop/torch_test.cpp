// SPDX-License-Identifier: Apache-2.0
// Against a real PyTorch, named by DDPRUN_TORCH_PYTHON (a python that has it).
#include "tests/interop/exercise.hpp"
#include "tests/interop/replay.hpp"
#include "tests/support/store_thread.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

extern char** environ;

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// The python to use, or a skip (a failure with DDPRUN_REQUIRE_TORCH=1) that says why not.
std::optional<std::string> torch_python() {
    const char* python = std::getenv("DDPRUN_TORCH_PYTHON");
    if (python != nullptr && *python != '\0') return python;
    const char* is_required = std::getenv("DDPRUN_REQUIRE_TORCH");
    const std::string reason = "DDPRUN_TORCH_PYTHON names no python with PyTorch";
    if (is_required != nullptr && std::string{is_required} == "1") FAIL(reason);
    std::printf("SKIP interop with PyTorch: %s\n", reason.c_str());
    return std::nullopt;
}

/// A script of this folder, with pipes to its standard input and output.
class Script {
public:
    Script(const std::string& python, const std::string& name, std::vector<std::string> arguments) {
        std::array<int, 2> in{}, out{};
        REQUIRE(::pipe2(in.data(), O_CLOEXEC) == 0);
        REQUIRE(::pipe2(out.data(), O_CLOEXEC) == 0);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        arguments.insert(arguments.begin(), {python, DDPRUN_SOURCE_DIR "/tests/interop/" + name});
        std::vector<char*> words;
        for (auto& argument : arguments)
            words.push_back(argument.data());
        words.push_back(nullptr);
        REQUIRE(
            ::posix_spawn(&pid_, python.c_str(), &actions, nullptr, words.data(), environ) == 0);
        posix_spawn_file_actions_destroy(&actions);
        ::close(in[0]);
        ::close(out[1]);
        input_ = in[1];
        output_ = out[0];
    }

    ~Script() {
        if (pid_ > 0) finish();
        ::close(output_);
    }

    Script(const Script&) = delete;
    Script& operator=(const Script&) = delete;

    std::string read_line() {
        std::string line;
        for (char c; ::read(output_, &c, 1) == 1 && c != '\n';)
            line += c;
        return line;
    }

    /// Ends its standard input and waits for it; its exit code.
    int finish() {
        ::close(input_);
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    pid_t pid_ = 0;
    int input_ = -1;
    int output_ = -1;
};

}  // namespace

TEST_CASE("PyTorch's client does everything with our server") {
    const auto python = torch_python();
    if (!python) return;
    StoreThread store;

    Script client(*python, "torch_client.py", {"127.0.0.1", std::to_string(store.port())});

    CHECK(client.read_line() == "ok");
    CHECK(client.finish() == 0);
}

TEST_CASE("our client does everything with PyTorch's server") {
    const auto python = torch_python();
    if (!python) return;
    Script server(*python, "torch_server.py", {});
    const auto port = static_cast<std::uint16_t>(std::stoi("0" + server.read_line()));
    REQUIRE(port != 0);

    exercise({"127.0.0.1", port});
}

TEST_CASE("PyTorch's server gives the recorded answers") {
    const auto python = torch_python();
    if (!python) return;
    // Each conversation needs an empty store.
    const auto conversations = recorded_conversations();
    Script server(*python, "torch_server.py", {std::to_string(conversations.size())});
    for (const auto& conversation : conversations) {
        const auto port = static_cast<std::uint16_t>(std::stoi("0" + server.read_line()));
        REQUIRE(port != 0);
        replay(conversation, port);
    }
}
