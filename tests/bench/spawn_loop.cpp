// SPDX-License-Identifier: Apache-2.0
// spawn_loop N PROGRAM ARGUMENTS...: the minimum that a launcher has to do. Starts N copies with
// RANK set, waits for all of them, returns the first code that is not 0.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const int count = std::atoi(argv[1]);
    std::vector<pid_t> children;
    for (int rank = 0; rank < count; ++rank) {
        ::setenv("RANK", std::to_string(rank).c_str(), 1);
        pid_t child = 0;
        if (posix_spawn(&child, argv[2], nullptr, nullptr, argv + 2, environ) != 0) return 4;
        children.push_back(child);
    }
    int code = 0;
    for (const auto child : children) {
        int status = 0;
        if (waitpid(child, &status, 0) != child) return 5;
        if (code == 0 && status != 0) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    }
    return code;
}
