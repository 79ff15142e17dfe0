// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

namespace ddprun::test {

/// A pipe whose ends are closed on exec and at the end of the scope.
class Pipe {
public:
    Pipe() {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    }
    ~Pipe() {
        close_write_end();
        ::close(ends_[0]);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    int read_end() const { return ends_[0]; }
    int write_end() const { return ends_[1]; }

    void close_write_end() {
        if (ends_[1] >= 0) ::close(ends_[1]);
        ends_[1] = -1;
    }

    /// Reads until the other end is closed everywhere. Requires: the write end here is closed.
    std::string read_all() const {
        std::string text;
        std::array<char, 4096> bytes;
        for (;;) {
            const auto size = ::read(ends_[0], bytes.data(), bytes.size());
            if (size <= 0) return text;
            text.append(bytes.data(), static_cast<std::size_t>(size));
        }
    }

private:
    std::array<int, 2> ends_{};
};

}  // namespace ddprun::test
