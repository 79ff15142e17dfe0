// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/options.hpp"

#include "worker_sdk/src/sanitizers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

Options parsed(const Words& words, const Environment& environment = {}) {
    const auto options = parse_options(words, environment);
    if (options) return *options;
    FAIL(options.error().context);
    return {};
}

std::string refusal(const Words& words, const Environment& environment = {}) {
    const auto options = parse_options(words, environment);
    return options ? "accepted" : options.error().context;
}

std::string with_underscores(std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

}  // namespace

TEST_CASE("every option with a value is read in every spelling and from its variable") {
    // All rows have the same code; reading one command line takes long with a sanitizer.
    constexpr std::size_t step = is_sanitized ? 5 : 1;
    for (std::size_t i = 0; i < option_table().size(); i += step) {
        const auto& row = option_table()[i];
        if (row.is_flag()) continue;
        const std::string name{row.name};
        CAPTURE(name);
        for (const auto& typed : {"--" + name, "--" + with_underscores(name)}) {
            const Options wanted{{{name, {"7", typed}}}, {"s.py"}};
            CHECK(parsed({typed, "7", "s.py"}) == wanted);
            CHECK(parsed({typed + "=7", "s.py"}) == wanted);
            CHECK(parsed({typed + "=1", typed + "=7", "s.py"}) == wanted);
            CHECK(parsed({typed + "=7", "s.py"}, {{environment_name(name), "8"}}) == wanted);
        }
        const auto variable = environment_name(name);
        const Options from_environment{{{name, {"8", variable}}}, {"s.py"}};
        if (!row.reads_environment) {
            CHECK(parsed({"s.py"}, {{variable, "8"}}) == Options{{}, {"s.py"}});
            continue;
        }
        CHECK(parsed({"s.py"}, {{variable, "8"}}) == from_environment);
        CHECK(parsed({"s.py"}, {{variable, ""}}) == Options{{}, {"s.py"}});
        CHECK(
            refusal({"--" + name}) ==
            "--" + name + ": no value given: accepted is " + std::string{row.value});
        CHECK(
            refusal({"--" + name, "--standalone", "s.py"}).starts_with("--" + name + ": no value"));
    }
}

TEST_CASE("every flag is read in every spelling and from its variable") {
    for (const auto& row : option_table()) {
        if (!row.is_flag() || row.name == "help" || row.name == "version") continue;
        const std::string name{row.name};
        CAPTURE(name);
        for (const auto& typed : {"--" + name, "--" + with_underscores(name)}) {
            CHECK(parsed({typed, "s.py"}) == Options{{{name, {"1", typed}}}, {"s.py"}});
            const auto accepted = row.variant.empty()
                                      ? std::string{"takes no value"}
                                      : "accepted is no value, or " + std::string{row.variant};
            CHECK(refusal({typed + "=1", "s.py"}) == typed + ": '1': " + accepted);
        }
        if (!row.reads_environment) continue;
        const auto variable = environment_name(name);
        CHECK(parsed({"s.py"}, {{variable, "1"}}).has_flag(name));
        CHECK_FALSE(parsed({"s.py"}, {{variable, "0"}}).has_flag(name));
        CHECK(
            refusal({"s.py"}, {{variable, "yes"}}) ==
            variable + ": 'yes': accepted are 0 (off) and 1 (on)");
    }
}

TEST_CASE("short options and unambiguous prefixes are understood in both spellings") {
    CHECK(parsed({"-m", "pkg"}).has_flag("module"));
    CHECK(parsed({"-h"}).has_flag("help"));
    CHECK(parsed({"--nproc=2", "s.py"}).find("nproc-per-node")->text == "2");
    CHECK(parsed({"--nproc_per=2", "s.py"}).find("nproc-per-node")->text == "2");
    CHECK(parsed({"--stand", "s.py"}).has_flag("standalone"));
    CHECK(
        refusal({"--n=2", "s.py"}) ==
        "--n: ambiguous: could be --nnodes, --node-unit, --nproc-per-node, --node-rank, "
        "--no-python, --numa-binding, --no-restart-on");
}

TEST_CASE("what torchrun takes for one of its options means the same here, beside our own") {
    CHECK(parsed({"--re=3", "s.py"}).find("redirects")->text == "3");
    CHECK(parsed({"--rol=x", "s.py"}).find("role")->text == "x");
    CHECK(parsed({"--restart-d=1", "s.py"}).find("restart-delay")->text == "1");
    CHECK(parsed({"--max=1", "s.py"}).find("max-restarts")->text == "1");
}

TEST_CASE("the count of workers has the short spellings of mpirun") {
    for (const Words& words :
         {Words{"-n", "4", "s.py"},
          Words{"-np", "4", "s.py"},
          Words{"-n=4", "s.py"},
          Words{"-np=4", "s.py"},
          Words{"-np4", "s.py"},
          Words{"-n4", "s.py"}}) {
        CAPTURE(words);
        CHECK(parsed(words).find("nproc-per-node")->text == "4");
        CHECK(parsed(words).command == Words{"s.py"});
    }
}

TEST_CASE("everything after the script is handed through untouched") {
    const Words command{"train.py", "--nnodes=9", "-h", "--", "--lr", "0.1", "", "--r=16", "[1,2]"};
    auto words = Words{"--nnodes=2"};
    words.insert(words.end(), command.begin(), command.end());

    const auto options = parsed(words);

    CHECK(options.command == command);
    CHECK(options.find("nnodes")->text == "2");
}

TEST_CASE("one double dash before the script ends the options and is dropped") {
    CHECK(
        parsed({"--nnodes=2", "--", "train.py", "--", "x"}).command ==
        Words{"train.py", "--", "x"});
    CHECK(parsed({"--", "--odd-script", "x"}).command == Words{"--odd-script", "x"});
    CHECK(parsed({"-", "x"}).command == Words{"-", "x"});
}

TEST_CASE("a negative number is a value, another option is not") {
    CHECK(parsed({"--node-rank", "-1", "s.py"}).find("node-rank")->text == "-1");
    CHECK(
        refusal({"--rdzv-endpoint", "-m", "s.py"}) ==
        "--rdzv-endpoint: no value given: accepted is HOST[:PORT][,...]");
}

TEST_CASE("the text after an equals sign is the value, whatever it looks like") {
    for (const std::string value :
         {"", "-x", "--nnodes", "--", "[a,b]", "[]", "{}", "a=b", "'q'"}) {
        CAPTURE(value);
        const Options wanted{{{"rdzv-id", {value, "--rdzv-id"}}}, {"s.py"}};
        CHECK(parsed({"--rdzv-id=" + value, "s.py"}) == wanted);
    }
    CHECK(refusal({"--standalone=true", "s.py"}) == "--standalone: 'true': takes no value");
    CHECK(refusal({"--standalone=", "s.py"}) == "--standalone: '': takes no value");
}

TEST_CASE("words of nothing but dashes are unknown options") {
    CHECK(refusal({"---", "s.py"}) == "---: unknown option");
    CHECK(refusal({"-=x", "s.py"}) == "-: unknown option");
}

TEST_CASE("an unknown option is named with the nearest known one") {
    CHECK(
        refusal({"--nprocs=2", "s.py"}) ==
        "--nprocs: unknown option: did you mean --nproc-per-node?");
    CHECK(
        refusal({"--nproc-pre-node=2", "s.py"}) ==
        "--nproc-pre-node: unknown option: did you mean --nproc-per-node?");
}

TEST_CASE("an option of the script that stands before it is shown where it belongs") {
    CHECK(
        refusal({"--lr", "0.1", "s.py"}) ==
        "--lr: unknown option: an option of the script goes after it: ddprun s.py --lr ...");
    CHECK(
        refusal({"-q", "-m", "trainer"}) ==
        "-q: unknown option: an option of the script goes after it: ddprun SCRIPT -q ...");
}

TEST_CASE("a flag that may be given one word keeps it, and is no plain flag then") {
    const auto options = parsed({"--explain=network", "s.py"});
    CHECK(options.find("explain") == Given{"network", "--explain"});
    CHECK_FALSE(options.has_flag("explain"));
    CHECK(parsed({"--explain", "network", "s.py"}).command == Words{"network", "s.py"});
}

TEST_CASE("what mpirun and its like call a list of machines leads to the option") {
    CHECK(parsed({"--hosts=a,b:2", "s.py"}).find("hosts")->text == "a,b:2");
    CHECK(parsed({"--hostfile", "f", "s.py"}).find("hostfile")->text == "f");
    CHECK(refusal({"-H", "a,b", "s.py"}) == "-H: unknown option: did you mean --hosts?");
    CHECK(
        refusal({"--machinefile", "f", "s.py"}) ==
        "--machinefile: unknown option: did you mean --hostfile?");
    CHECK(refusal({"--host", "a", "s.py"}) == "--host: ambiguous: could be --hosts, --hostfile");
}

TEST_CASE("help and version work beside mistakes that follow") {
    CHECK(parsed({"--help", "--wibble"}).has_flag("help"));
    CHECK(parsed({"--nnodes=x", "--version", "--wibble"}).has_flag("version"));
}

TEST_CASE("the help names every option and fits a terminal") {
    const auto help = help_text();
    for (const auto& row : option_table())
        CHECK(
            help.find("--" + std::string{row.name} + (row.is_flag() ? "" : " ")) !=
            std::string::npos);
    std::istringstream lines{help};
    for (std::string line; std::getline(lines, line);) {
        CAPTURE(line);
        CHECK(line.size() < 80);
    }
}

TEST_CASE("of a command line with a mistake everything else can still be read") {
    const std::vector<std::string> words{
        "--log_format=json", "--frobnicate", "--standalone", "--report-file", "r.json", "--role"};
    const auto options = readable_options(words, {{"PET_RDZV_ID", "job7"}});

    CHECK(options.find("log-format")->text == "json");
    CHECK(options.find("report-file")->text == "r.json");
    CHECK(options.has_flag("standalone"));
    CHECK(options.find("rdzv-id")->text == "job7");
    CHECK_FALSE(options.find("role"));
}
