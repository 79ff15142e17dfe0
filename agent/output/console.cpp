// SPDX-License-Identifier: Apache-2.0
#include "agent/output/console.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun::agent {
namespace {

bool are_one_file(int left, int right) {
    struct stat a {};
    struct stat b {};
    return ::fstat(left, &a) == 0 && ::fstat(right, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

}  // namespace

Console::Console() : is_one_place_(are_one_file(STDOUT_FILENO, STDERR_FILENO)) {}

void Console::write(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto size = ::write(descriptor, bytes.data(), bytes.size());
        if (size > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(size));
            written_bytes_ += static_cast<std::uint64_t>(size);
        } else if (size < 0 && errno == EAGAIN) {
            pollfd room{descriptor, POLLOUT, 0};
            ::poll(&room, 1, -1);
        } else if (size < 0 && errno != EINTR) {
            return;
        }
    }
}

void Console::pass(int descriptor, std::string_view bytes) {
    if (bytes.empty()) return;
    // All that pass bytes are one owner, the console itself: among them nothing is added.
    const auto* owner = line_owner(descriptor);
    if (owner != nullptr && owner != this) write(descriptor, "\n");
    write(descriptor, bytes);
    set_line_owner(descriptor, bytes.back() == '\n' ? nullptr : this);
}

std::size_t Console::place_of(int descriptor) const {
    return descriptor == STDERR_FILENO && !is_one_place_ ? 1 : 0;
}

}  // namespace ddprun::agent
