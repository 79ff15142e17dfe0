// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace ddprun::net {
namespace {

/// Eight bytes each, taken from the kernel at once.
constexpr rlim_t room = 4096;

}  // namespace

void prepare_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    // The table keeps the size that its highest number once needed.
    const int copied = ::open("/", O_PATH | O_CLOEXEC);
    if (copied < 0) return;
    const int highest =
        ::fcntl(copied, F_DUPFD_CLOEXEC, static_cast<int>(std::min(limit.rlim_max, room)) - 1);
    ::close(copied);
    if (highest >= 0) ::close(highest);
}

}  // namespace ddprun::net
