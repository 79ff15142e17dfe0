// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_code.hpp"

#include "rendezvous/base/exit_codes.hpp"

#include <cerrno>

namespace ddprun::launcher {

int exit_code_before_start(const Failure& failure, bool is_torchrun_wanted) {
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
        if (failure.code == system_code(row.number)) {
            const bool is_usage = row.exit_code == exit_codes::usage;
            return is_torchrun_wanted && !is_usage ? exit_codes::as_torchrun(row.exit_code)
                                                   : row.exit_code;
        }
    return exit_codes::internal_error;
}

}  // namespace ddprun::launcher
