// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

/// The rules that files with secrets and their folders have in common (docs/secrets.md), and the
/// form of a message about one of them.
namespace ddprun::tls {

/// "ORIGIN: 'PATH': what is wrong", with the code EINVAL.
inline Failure wrong_file(
    const std::string& origin, const std::string& path, const std::string& what) {
    return {system_code(EINVAL), origin + ": '" + path + "': " + what};
}

/// Empty: it belongs to this user or to root.
inline std::string objection_to_owner(const struct stat& facts) {
    const bool is_own = facts.st_uid == ::geteuid() || facts.st_uid == 0;
    return is_own ? "" : "belongs to another user";
}

/// Empty: no other user can write it.
inline std::string objection_to_writers(const struct stat& facts) {
    const bool is_open = (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    return is_open ? "can be written by other users: chmod go-w it" : "";
}

}  // namespace ddprun::tls
