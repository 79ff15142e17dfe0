// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/local_users.hpp"

#include "rendezvous/base/user_numbers.hpp"

#include <fstream>
#include <iterator>
#include <string>

namespace ddprun::net {
namespace local_users {
namespace {

std::string text_of(const char* path) {
    std::ifstream file{path};
    return {std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace
}  // namespace local_users

bool means_one_user(unsigned user) {
    // A process changes its user namespace only before it has threads, and ours do not.
    static const auto map = local_users::text_of("/proc/self/uid_map");
    static const auto overflow = local_users::text_of("/proc/sys/kernel/overflowuid");
    return ddprun::means_one_user(user, {map, overflow});
}

}  // namespace ddprun::net
