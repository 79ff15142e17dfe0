// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace ddprun::net {

/// Makes threads possible where a container's filter refuses clone3 with EPERM (Docker before
/// 20.10.10): glibc uses clone instead only if the call fails with ENOSYS, so a filter is added
/// that answers so. It is inherited: workers can start threads too. Without
/// CAP_SYS_ADMIN the system demands no_new_privs for it: set-user-id programs then gain nothing.
/// Where clone3 is not refused, nothing is changed. To be called before the first thread is
/// started.
void prepare_threads();

/// Why a program ends, of what its main caught: the limits that apply where a thread or a process
/// could not be started (start_failure.hpp), else an internal error.
std::string describe_fatal(const std::exception& error);

}  // namespace ddprun::net
