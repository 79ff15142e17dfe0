// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

/// What starting a program takes.
namespace ddprun::launcher {

/// Both ends are closed by the destructor, and in a program that is executed. An end that is taken
/// becomes -1.
struct Pipe {
    int read_end = -1;
    int write_end = -1;

    Pipe() = default;
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe() {
        for (const int end : {read_end, write_end})
            if (end >= 0) ::close(end);
    }
    /// False: errno says why.
    bool open() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
        read_end = ends[0];
        write_end = ends[1];
        return true;
    }
};

/// For execve: valid while the words are.
inline std::vector<char*> pointers_to(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const auto& word : words)
        pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

}  // namespace ddprun::launcher
