// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/ctl_options.hpp"

#include "launcher/ctl/ctl_table.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher::ctl;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

CtlOptions meaning(const Words& words) {
    const auto options = parse_ctl_options(words);
    REQUIRE_MESSAGE(options.has_value(), options.error().context);
    return *options;
}

std::string mistake(const Words& words) {
    const auto options = parse_ctl_options(words);
    return options ? "none" : options.error().context;
}

}  // namespace

TEST_CASE("each command of ddprunctl means what its words say, wherever options stand") {
    using Stop = control::StopJob;
    using Signal = control::SignalWorkers;
    using Drain = control::DrainNodes;
    using Undrain = control::UndrainNodes;
    using Resize = control::ResizeJob;
    const std::vector<std::pair<Words, CtlOptions>> cases{
        {{"ps"}, {ListJobs{}}},
        {{"ps", "--json"}, {ListJobs{}, std::nullopt, std::nullopt, true}},
        {{"--json", "ps"}, {ListJobs{}, std::nullopt, std::nullopt, true}},
        {{"status"}, {ShowJob{}}},
        {{"status", "run17", "--pid=4711"}, {ShowJob{}, "run17", 4711}},
        {{"status", "--pid", "4711"}, {ShowJob{}, std::nullopt, 4711}},
        {{"stop", "run17"}, {Stop{}, "run17"}},
        {{"stop", "--grace=1.5m", "run17"}, {Stop{90s}, "run17"}},
        {{"stop", "run17", "--grace", "0"}, {Stop{0s}, "run17"}},
        {{"stop", "--pid=4711"}, {Stop{}, std::nullopt, 4711}},
        {{"stop", "run17", "--pid=4711"}, {Stop{}, "run17", 4711}},
        {{"signal", "--pid=4711", "USR1"}, {Signal{SIGUSR1}, std::nullopt, 4711}},
        {{"signal", "run17", "USR1", "--pid=4711"}, {Signal{SIGUSR1}, "run17", 4711}},
        {{"signal", "run17", "USR1"}, {Signal{SIGUSR1}, "run17"}},
        {{"signal", "run17", "sigterm", "--rank=3"}, {Signal{SIGTERM, 3}, "run17"}},
        {{"signal", "run17", "9", "--rank", "0"}, {Signal{SIGKILL, 0}, "run17"}},
        {{"signal", "run17", "RTMIN+1"}, {Signal{SIGRTMIN + 1}, "run17"}},
        {{"signal", "run17", "USR1", "--ranks=0-3"}, {Signal{SIGUSR1, 0, 3}, "run17"}},
        {{"signal", "run17", "USR1", "--ranks=5"}, {Signal{SIGUSR1, 5, 5}, "run17"}},
        {{"drain", "run17", "node5"}, {Drain{{"node5"}}, "run17"}},
        {{"drain", "run17", "--force", "node5", "3"}, {Drain{{"node5", "3"}, true}, "run17"}},
        {{"drain", "--pid=4711", "node5", "3"}, {Drain{{"node5", "3"}}, std::nullopt, 4711}},
        {{"undrain", "run17", "node5", "node7"}, {Undrain{{"node5", "node7"}}, "run17"}},
        {{"resize", "run17", "2:4"}, {Resize{{2, 4}}, "run17"}},
        {{"resize", "--pid=4711", "3"}, {Resize{{3, 3}}, std::nullopt, 4711}},
        {{"resize", "run17", "2:4+1", "--rdzv-endpoint=node1:7"},
         {Resize{{2, 4, 1}}, "run17", std::nullopt, false, RemoteServer{{"node1", 7}}}},
        {{"stacks"}, {ShowStacks{}}},
        {{"stacks", "run17", "--ranks=0-3"}, {ShowStacks{RankRange{0, 3}}, "run17"}},
        {{"stacks", "--pid=4711", "--ranks", "5"},
         {ShowStacks{RankRange{5, 5}}, std::nullopt, 4711}},
        {{"stacks", "--native"}, {ShowStacks{std::nullopt, true}}},
        {{"token"}, {ShowToken{}}},
        {{"token", "--secret-file=/etc/secret"}, {ShowToken{"/etc/secret"}}},
        {{"ps", "--rdzv-endpoint=node1"},
         {ListJobs{}, std::nullopt, std::nullopt, false, RemoteServer{{"node1", 29'400}}}},
        {{"stop", "run17", "--rdzv-endpoint", "[::1]:7", "--rdzv-secret-file=/s"},
         {Stop{}, "run17", std::nullopt, false, RemoteServer{{"::1", 7}, "/s"}}},
        {{"undrain", "run17", "node5", "--rdzv-endpoint=node1:7"},
         {Undrain{{"node5"}}, "run17", std::nullopt, false, RemoteServer{{"node1", 7}}}},
        {{"stop", "--", "--run"}, {Stop{}, "--run"}},
        {{"signal", "--rank=1", "--", "-x", "USR1"}, {Signal{SIGUSR1, 1}, "-x"}},
        {{"ps", "--help"}, {PrintText{help_text()}}},
        {{"-h"}, {PrintText{help_text()}}},
        {{"--print-completion=bash"}, {PrintText{*completion_script("bash")}}},
    };
    for (const auto& [words, options] : cases) {
        const auto& first = words.front();  // CAPTURE takes no structured binding under clang
        CAPTURE(first);
        CHECK(meaning(words) == options);
    }
}

TEST_CASE("a mistake on ddprunctl's command line says what is accepted") {
    const std::vector<std::pair<Words, std::string>> cases{
        {{},
         "no command given: accepted are ps, status, stop, signal, stacks, drain, undrain, "
         "resize, token"},
        {{"stopp", "x"}, "'stopp': unknown command: did you mean stop?"},
        {{"reboot"},
         "'reboot': unknown command: accepted are ps, status, stop, signal, stacks, drain, "
         "undrain, resize, token"},
        {{"ps", "x"}, "ps: 'x' is one word too many"},
        {{"stop"}, "stop: RUN_ID is missing"},
        {{"signal", "x"}, "signal: SIGNAL is missing"},
        {{"signal", "--pid=4711"}, "signal: RUN_ID is missing"},
        {{"stop", ""}, "stop: an empty word: accepted is RUN_ID"},
        {{"stop", "--pid=4711", ""}, "stop: an empty word: accepted is RUN_ID"},
        {{"status", ""}, "status: an empty word: accepted is [RUN_ID]"},
        {{"signal", "", "USR1"}, "signal: an empty word: accepted is RUN_ID"},
        {{"signal", "x", ""}, "signal: an empty word: accepted is SIGNAL"},
        {{"stop", "x", "--", "--grace=1"}, "stop: '--grace=1' is one word too many"},
        {{"stop", "x", "y"}, "stop: 'y' is one word too many"},
        {{"drain", "x"}, "drain: NODE... is missing"},
        {{"drain", "--pid=7"}, "drain: NODE... is missing"},
        {{"undrain"}, "undrain: RUN_ID is missing"},
        {{"drain", "x", "a", ""}, "drain: an empty word: accepted is NODE..."},
        {{"undrain", "x", "a", "--force"}, "--force: not with undrain, only with drain"},
        {{"resize", "x"}, "resize: MIN:MAX[+SPARES] is missing"},
        {{"resize", "x", ""}, "resize: an empty word: accepted is MIN:MAX[+SPARES]"},
        {{"resize", "x", "5:3"},
         "'5:3': MIN is larger than MAX; accepted are N, MIN:MAX and MIN:MAX+SPARES with 1 <= MIN "
         "<= MAX <= 65536"},
        {{"resize", "x", "0"},
         "'0': accepted are N, MIN:MAX and MIN:MAX+SPARES with 1 <= MIN <= MAX <= 65536"},
        {{"resize", "x", "1:65537"},
         "'1:65537': too many nodes; accepted are N, MIN:MAX and MIN:MAX+SPARES with 1 <= MIN <= "
         "MAX <= 65536"},
        {{"stop", "x", "--grace"}, "--grace: no value given: accepted is DURATION"},
        {{"stop", "x", "--grace=soon"},
         "--grace: 'soon': accepted is seconds, or a number with ms, s, m, h or d"},
        {{"stop", "x", "--grace=-1"},
         "--grace: '-1': accepted is seconds, or a number with ms, s, m, h or d"},
        {{"signal", "x", "99"}, "'99': no signal: accepted is a name, as USR1, or a number"},
        {{"signal", "x", "USR3"}, "'USR3': no signal: accepted is a name, as USR1, or a number"},
        {{"signal", "x", "USR1", "--rank=-1"}, "--rank: '-1': accepted is a number from 0 on"},
        {{"status", "--pid=0"}, "--pid: '0': accepted is a number from 1 on"},
        {{"stop", "x", "--rank=1"}, "--rank: not with stop, only with signal"},
        {{"ps", "--pid=1"},
         "--pid: not with ps, only with status stop signal stacks drain undrain resize"},
        {{"stacks", "--rdzv-endpoint=a"},
         "stacks: RUN_ID is missing: with --rdzv-endpoint the job must be named"},
        {{"stacks", "run17", "--native", "--rdzv-endpoint=a"},
         "--native: not with --rdzv-endpoint, since a program of this machine reads the workers: "
         "run ddprunctl on their node"},
        {{"stacks", "--native=gdb"}, "--native: takes no value"},
        {{"token", "--rdzv-endpoint=a"},
         "--rdzv-endpoint: not with token, only with ps status stop signal stacks drain undrain "
         "resize"},
        {{"status", "--pid=7", "--rdzv-endpoint=a"},
         "--pid: not with --rdzv-endpoint, since it is a process of this machine"},
        {{"status", "--rdzv-secret-file=/s"},
         "--rdzv-secret-file: only with --rdzv-endpoint=HOST[:PORT]"},
        {{"ps", "--rdzv-endpoint= "}, "--rdzv-endpoint: an empty value: accepted is HOST[:PORT]"},
        {{"stacks", "--ranks=3-1"}, "--ranks: '3-1': accepted is a rank, or two as 0-3"},
        {{"stacks", "--ranks=-1"}, "--ranks: '-1': accepted is a rank, or two as 0-3"},
        {{"stacks", "--ranks=1-2-3"}, "--ranks: '1-2-3': accepted is a rank, or two as 0-3"},
        {{"stacks", "--ranks="}, "--ranks: '': accepted is a rank, or two as 0-3"},
        {{"signal", "x", "USR1", "--ranks=3-1"},
         "--ranks: '3-1': accepted is a rank, or two as 0-3"},
        {{"signal", "x", "USR1", "--ranks=1", "--rank=1"},
         "--ranks: not with --rank, since it names the ranks, too"},
        {{"stop", "x", "--ranks=1"}, "--ranks: not with stop, only with signal stacks"},
        {{"stop", "x", "--grase=1"}, "--grase: unknown option: did you mean --grace?"},
        {{"ps", "--json=1"}, "--json: takes no value"},
        {{"--print-completion=ksh"},
         "--print-completion: 'ksh': accepted are bash, zsh, fish and tcsh"},
    };
    for (const auto& [words, reason] : cases)
        CHECK(mistake(words) == reason);
}

TEST_CASE("the help and the completions have every command and option of ddprunctl") {
    for (const std::string shell : {"bash", "zsh", "fish"}) {
        CAPTURE(shell);
        const auto script = completion_script(shell).value();
        for (const auto& row : command_table())
            CHECK(script.find(row.name) != std::string::npos);
        for (const auto& row : ctl_option_table())
            CHECK(script.find(row.name) != std::string::npos);
    }
    for (const auto& row : command_table())
        CHECK(help_text().find("\n  " + std::string{row.name}) != std::string::npos);
    for (const auto& row : ctl_option_table())
        CHECK(help_text().find("\n  --" + std::string{row.name}) != std::string::npos);
    CHECK(
        completion_script("tcsh")->find(
            "(ps status stop signal stacks drain undrain resize token)") != std::string::npos);
    CHECK_FALSE(completion_script("ksh"));
}
