// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/replace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace ddprun::agent {
namespace {

/// Returns 0 or the errno.
int write_to(const std::string& path, int flags, std::string_view text) {
    constexpr mode_t any_user = 0666;
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, any_user);
    if (file < 0) return errno;
    int problem = 0;
    while (!text.empty() && problem == 0) {
        const auto size = ::write(file, text.data(), text.size());
        if (size >= 0)
            text.remove_prefix(static_cast<std::size_t>(size));
        else if (errno != EINTR)
            problem = errno;
    }
    // On a network file system a full disk may be reported only here.
    if (::close(file) != 0 && problem == 0) problem = errno;
    return problem;
}

/// True for a device, a pipe or a link: replacing /dev/null would break the whole machine.
bool must_stay(const std::string& path) {
    struct stat there {};
    return ::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode);
}

}  // namespace

int replace_file(const std::string& path, std::string_view text) {
    constexpr int into_it = O_CREAT | O_TRUNC | O_NONBLOCK;
    if (must_stay(path)) return write_to(path, into_it, text);
    const auto beside = path + ".ddprun-" + std::to_string(::getpid());
    int problem = write_to(beside, O_CREAT | O_EXCL, text);
    if (problem == 0 && ::rename(beside.c_str(), path.c_str()) == 0) return 0;
    if (problem == 0) problem = errno;
    ::unlink(beside.c_str());
    if (problem == ENOSPC || problem == EDQUOT) return problem;
    return write_to(path, into_it, text);
}

}  // namespace ddprun::agent
