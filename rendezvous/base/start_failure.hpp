// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <system_error>

namespace ddprun {

/// Why a thread or a process could not be started: the limits that apply if the system's error
/// means that a limit was reached (EAGAIN), else `otherwise`.
std::string describe_start_failure(const std::error_code& code, const std::string& otherwise);

}  // namespace ddprun
