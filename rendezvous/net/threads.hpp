// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace ddprun::net {

/// Makes threads possible in a container whose filter refuses clone3 with EPERM (Docker before
/// 20.10.10). glibc uses clone instead only if the call fails with ENOSYS, so a filter is added
/// that returns ENOSYS. Workers inherit it and can start threads too. Without CAP_SYS_ADMIN the
/// filter needs no_new_privs, under which set-user-id programs gain no privileges. When clone3 is
/// not refused, nothing is changed. Call it before the first thread is started.
void prepare_threads();

/// The text for an exception that ended main: the limits that apply if a thread or a process could
/// not be started (start_failure.hpp), else an internal error.
std::string describe_fatal(const std::exception& error);

}  // namespace ddprun::net
