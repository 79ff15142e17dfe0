// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_code.hpp"

#include <doctest/doctest.h>

#include <cerrno>

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("what stops ddprun before a job exists has the exit code a shell would give it") {
    const auto code = [](int number) {
        return exit_code_before_start(Failure{system_code(number), ""});
    };
    CHECK(code(EINVAL) == 2);
    CHECK(code(ENOENT) == 127);
    CHECK(code(EACCES) == 126);
    CHECK(code(EISDIR) == 126);
    CHECK(code(EMFILE) == 1);
}

TEST_CASE("as torchrun has it, what stops ddprun before a job exists is 2 for usage, else 1") {
    const auto code = [](int number) {
        return exit_code_before_start(Failure{system_code(number), ""}, true);
    };
    CHECK(code(EINVAL) == 2);
    CHECK(code(ENOENT) == 1);
    CHECK(code(EACCES) == 1);
    CHECK(code(EMFILE) == 1);
}
