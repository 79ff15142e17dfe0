// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_code.hpp"

#include "rendezvous/base/exit_codes.hpp"

#include <cerrno>

namespace ddprun::launcher {

int exit_code_before_start(const Failure& failure) {
    struct Row {
        int number;
        int exit_code;
    };
    constexpr Row rows[] = {
        {EINVAL, exit_codes::usage},
        {ENOENT, exit_codes::not_found},
        {EACCES, exit_codes::not_executable},
        {EISDIR, exit_codes::not_executable}};
    for (const auto& row : rows)
        if (failure.code == system_code(row.number)) return row.exit_code;
    return exit_codes::internal_error;
}

}  // namespace ddprun::launcher
