// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace ddprun::net {
namespace {

/// The size of the table to allocate: the kernel needs eight bytes for each descriptor.
constexpr rlim_t room = 4096;

int count_open() {
    constexpr int standard_streams = 3;
    std::error_code error;
    int count = 0;
    for (std::filesystem::directory_iterator entry{"/proc/self/fd", error}, end;
         !error && entry != end;
         entry.increment(error))
        ++count;
    return error || count == 0 ? standard_streams : count - 1;  // one descriptor is the iterator's
}

}  // namespace

void prepare_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    // Opens a high descriptor and closes it: the table keeps its size.
    const int copied = ::open("/", O_PATH | O_CLOEXEC);
    if (copied < 0) return;
    const int highest =
        ::fcntl(copied, F_DUPFD_CLOEXEC, static_cast<int>(std::min(limit.rlim_max, room)) - 1);
    ::close(copied);
    if (highest >= 0) ::close(highest);
}

std::string lacking_descriptors(int needed) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
    const auto all = static_cast<rlim_t>(count_open() + needed);
    if (all <= limit.rlim_max) return {};
    return "the hard limit of open files is " + std::to_string(limit.rlim_max) +
           " (RLIMIT_NOFILE), but " + std::to_string(all) +
           " are needed: raise it, with ulimit -Hn, LimitNOFILE= or docker run --ulimit nofile=";
}

bool is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

bool can_open_descriptors(int count) {
    std::vector<int> opened;
    for (int i = 0; i < count; ++i) {
        const int descriptor = ::open("/", O_PATH | O_CLOEXEC);
        if (descriptor < 0) break;
        opened.push_back(descriptor);
    }
    for (const int descriptor : opened)
        ::close(descriptor);
    return static_cast<int>(opened.size()) == count;
}

}  // namespace ddprun::net
