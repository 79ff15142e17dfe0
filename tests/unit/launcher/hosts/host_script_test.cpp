// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_script.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

std::string text_of(const std::optional<HostAnswer>& answer) {
    if (!answer) return "none";
    return std::visit(
        Overloaded{
            [](HostLacks) { return std::string{"lacks"}; },
            [](HostIsReady) { return std::string{"ready"}; },
            [](const HostCannot& cannot) { return "cannot: " + cannot.reason; }},
        *answer);
}

}  // namespace

TEST_CASE("the question is one command, and every value in it is a word") {
    const auto script = question_script({"t0", "/home/it's me", "abc", 12, "x86_64"});
    CHECK(script.starts_with(
        "ddprun_token=t0\nddprun_folder='/home/it'\\''s me'\nddprun_sum=abc\nddprun_size=12\n"
        "ddprun_machine=x86_64\nddprun_main() {\n"));
    CHECK(script.ends_with("\n}\nddprun_main\n"));
}

TEST_CASE("the start has its length before it, python where the host has it, and the environment") {
    const auto script = start_script(
        "t0",
        {{"A", "it's"}, {"PATH", "/v/bin:/bin"}, {"BASH_FUNC_f%%", "() { :; }"}, {"UID", "7"}},
        "/v/bin/python",
        {"--nnodes=2", "--", "a b.py"});
    const std::string own =
        "set -- \"$ddprun_program\" \"$@\"\n"
        "unset ddprun_token ddprun_folder ddprun_sum ddprun_size ddprun_machine ddprun_is "
        "ddprun_cache ddprun_program ddprun_copy ddprun_length ddprun_start\n";
    const std::string text =
        "set -- --nnodes=2 -- 'a b.py'\n"
        "[ ! -x /v/bin/python ] || set -- --python=/v/bin/python \"$@\"\n" +
        own +
        "export A='it'\\''s'\n"
        "export PATH=/v/bin:/bin\"${PATH:+:$PATH}\"\n"
        "exec \"$@\"\n"
        "# t0\n";
    CHECK(script == std::to_string(text.size()) + "\n" + text);
    const auto least = "set -- x\n" + own + "exec \"$@\"\n# t0\n";
    CHECK(start_script("t0", {}, "", {"x"}) == std::to_string(least.size()) + "\n" + least);
}

TEST_CASE(
    "a host gets this environment without what belongs to the machine, the login or this job") {
    const Environment here{
        {"HOME", "/root"},
        {"PATH", "/bin"},
        {"VIRTUAL_ENV", "/v"},
        {"NCCL_DEBUG", "INFO"},
        {"SSH_AUTH_SOCK", "/tmp/a"},
        {"XDG_RUNTIME_DIR", "/run/user/0"},
        {"SLURM_STEP_ID", "1"},
        {"PET_HOSTS", "a,b"},
        {"TMPDIR", "/scratch/1"},
        {"DDPRUN_TRACE", "1"},
        {"DDPRUN_HOSTS_LINK", "t"}};
    CHECK(
        environment_for_hosts(here, "") == Environment{
                                               {"PATH", "/bin"},
                                               {"VIRTUAL_ENV", "/v"},
                                               {"NCCL_DEBUG", "INFO"},
                                               {"DDPRUN_TRACE", "1"}});
}

TEST_CASE("the variable that names this machine's switch is not sent to other machines") {
    const Environment here{{"RACK", "row1/rack7"}, {"PATH", "/bin"}};
    CHECK(environment_for_hosts(here, "env:RACK") == Environment{{"PATH", "/bin"}});
    CHECK(environment_for_hosts(here, "file:RACK") == here);
    CHECK(environment_for_hosts(here, "env:") == here);
}

TEST_CASE("answers are found among what a host's start-up files write, however they are split") {
    const std::string bytes =
        "Welcome\nno end\nddprun-host t0 lacks\n\nddprun-host t1 ready\nddprun-host t0 cannot "
        "write "
        "/x\n\nddprun-host t0 ready\nrest";
    for (std::size_t size = 1; size <= bytes.size(); ++size) {
        CAPTURE(size);
        AnswerReader reader("t0");
        std::vector<std::string> answers;
        for (std::string_view left = bytes; !left.empty();
             left.remove_prefix(std::min(size, left.size()))) {
            reader.append(left.substr(0, size));
            while (const auto answer = reader.next())
                answers.push_back(text_of(answer));
        }
        CHECK(answers == std::vector<std::string>{"lacks", "cannot: write /x", "ready"});
    }
}

TEST_CASE("what a host writes without an answer is bounded") {
    AnswerReader reader("t");
    for (int i = 0; i < 4; ++i)
        reader.append(std::string(limits::max_host_answer_bytes, 'x'));
    reader.append("\nddprun-host t ready\n");
    CHECK(text_of(reader.next()) == "ready");
}

TEST_CASE("a node reads back the link that it was started with") {
    CHECK_FALSE(read_host_link({}));
    for (const auto& link : {HostLink{"t0", false}, HostLink{"t0", true}})
        CHECK(read_host_link({{"DDPRUN_HOSTS_LINK", describe(link)}}) == link);
}
