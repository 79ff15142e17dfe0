// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <system_error>

namespace ddprun::net {

/// Makes threads possible where a container's filter refuses clone3 with EPERM (Docker before
/// 20.10.10): glibc uses clone instead only if the call fails with ENOSYS, so a filter is added
/// that answers so. It is inherited: workers can start threads too. Without
/// CAP_SYS_ADMIN the system demands no_new_privs for it: set-user-id programs then gain nothing.
/// Where clone3 is not refused, nothing is changed. To be called before the first thread is
/// started.
void prepare_threads();

/// Why a program ends that cannot go on without a thread or a process: the limits that apply, if
/// the code is the system's for reaching one (EAGAIN), else `otherwise`.
std::string describe_start_failure(const std::error_code& code, const std::string& otherwise);
/// The same of what a program's main caught; otherwise it is an internal error.
std::string describe_fatal(const std::exception& error);

}  // namespace ddprun::net
