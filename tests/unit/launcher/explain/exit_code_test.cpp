// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain/exit_code.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <vector>

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

TEST_CASE("as torchrun has it, what stops ddprun before a job exists is 1") {
    const auto code = [](int number) {
        return exit_code_before_start(Failure{system_code(number), ""}, true);
    };
    CHECK(code(EINVAL) == 1);
    CHECK(code(ENOENT) == 1);
    CHECK(code(EACCES) == 1);
    CHECK(code(EMFILE) == 1);
}

TEST_CASE("a mistake that torchrun's own parser finds is 2 there too, any other value's is 1") {
    const auto is_torchruns = [](std::vector<std::string> words) {
        const auto options = parse_options(words, {});
        REQUIRE(options.has_value());
        return is_exit_code_torchruns(*options);
    };
    CHECK(is_torchruns({"--compat=torchrun", "--nnodes=x", "train.py"}));
    CHECK(is_torchruns({"--compat=torchrun", "--max-restarts=-1", "train.py"}));
    CHECK_FALSE(is_torchruns({"--compat=torchrun", "--max-restarts=x", "train.py"}));
    CHECK_FALSE(is_torchruns({"--compat=torchrun", "--start-method=thread", "train.py"}));
    CHECK_FALSE(is_torchruns({"--compat=torchrun", "--numa-binding=cores", "train.py"}));
    CHECK_FALSE(is_torchruns({"--compat=torchrun", "--monitor-interval=soon", "train.py"}));
    CHECK_FALSE(is_torchruns({"--compat=torchrun", "--standalone"}));
    CHECK_FALSE(is_torchruns({"--compat=other", "--nnodes=x", "train.py"}));
    CHECK_FALSE(is_torchruns({"--nnodes=x", "train.py"}));
}

TEST_CASE("the name torchrun means --compat=torchrun, unless that option is given") {
    const auto compat = [](std::string_view name, const std::vector<std::string>& words) {
        auto options = *parse_options(words, {});
        use_program_name(options, name);
        return options.find("compat").value_or(Given{"none", ""});
    };
    const Given by_name{"torchrun", "called torchrun"};
    CHECK(compat("torchrun", {"train.py"}) == by_name);
    CHECK(compat("/v/bin/torchrun", {"train.py"}) == by_name);
    CHECK(compat("ddprun", {"train.py"}).text == "none");
    CHECK(compat("/torchrun/ddprun", {"train.py"}).text == "none");
    CHECK(compat("mytorchrun", {"train.py"}).text == "none");
    CHECK(compat("torchrun", {"--compat=other", "train.py"}) == Given{"other", "--compat"});
}
