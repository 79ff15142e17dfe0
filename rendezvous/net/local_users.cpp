// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/local_users.hpp"

#include "rendezvous/base/user_numbers.hpp"
#include "rendezvous/net/descriptors.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>

namespace ddprun::net {
namespace local_users {
namespace {

/// The file's text: empty when it cannot be read, none when no descriptor or memory is left to read
/// it.
std::optional<std::string> text_of(const char* path) {
    errno = 0;
    std::ifstream file{path};
    if (!file && is_shortage(errno)) return std::nullopt;
    return std::string{std::istreambuf_iterator<char>{file}, {}};
}

/// Read once, since it is a setting of the machine and is needed for each connection at a loopback
/// address.
std::optional<std::string> overflow() {
    static std::mutex mutex;
    static std::optional<std::string> known;
    const std::scoped_lock lock(mutex);
    if (!known) known = text_of("/proc/sys/kernel/overflowuid");
    return known;
}

}  // namespace
}  // namespace local_users

std::optional<bool> means_one_user(unsigned user) {
    const auto overflow = local_users::overflow();
    if (!overflow) return std::nullopt;
    // The answer depends on the namespace only for the overflow uid.
    if (ddprun::means_one_user(user, {{}, *overflow})) return true;
    const auto map = local_users::text_of("/proc/self/uid_map");
    if (!map) return std::nullopt;
    return ddprun::means_one_user(user, {*map, *overflow});
}

}  // namespace ddprun::net
