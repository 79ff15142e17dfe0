// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_code.hpp"

#include <cerrno>

namespace ddprun::launcher {

int exit_code_before_start(const Failure& failure) {
    struct Row {
        int number;
        int exit_code;
    };
    constexpr Row rows[] = {{EINVAL, 2}, {ENOENT, 127}, {EACCES, 126}, {EISDIR, 126}};
    for (const auto& row : rows)
        if (failure.code == system_code(row.number)) return row.exit_code;
    return 1;
}

}  // namespace ddprun::launcher
