// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain/exit_code.hpp"
#include "launcher/explain/explain.hpp"
#include "launcher/resolve/job_spec.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

/// A gdb is on PATH, and a strace that cannot be executed.
SystemInfo with_debuggers() {
    auto system = a_machine();
    system.look_at = [files = system.look_at](const std::string& path) {
        if (path == "/usr/bin/gdb") return PathLook{true, false, true, true};
        if (path == "/usr/bin/strace") return PathLook{true, false, true, false};
        return files(path);
    };
    return system;
}

Result<JobSpec> resolved(Words words, const SystemInfo& system = with_debuggers()) {
    words.emplace_back("train.py");
    const auto options = parse_options(words, system.environment);
    if (!options) return options.error();
    return resolve(*options, system);
}

std::string refusal(const Words& words) {
    const auto spec = resolved(words);
    if (spec) return "accepted";
    CHECK(exit_code_before_start(spec.error(), false) == exit_codes::usage);
    return spec.error().context;
}

std::string variable(const JobSpec& spec, const std::string& name) {
    const auto found = spec.environment.find(name);
    return found == spec.environment.end() ? "unset" : found->second;
}

}  // namespace

TEST_CASE("without --attach and --wrap all workers inherit stdin and run as they are") {
    const auto spec = resolved({});
    REQUIRE(spec.has_value());
    const auto config = to_agent_config(*spec);
    CHECK_FALSE(config.worker.attachment.has_value());
    CHECK_FALSE(config.worker.wrapper.has_value());
    CHECK(spec->grace.value == 30s);
    CHECK(variable(*spec, "TORCH_NCCL_ENABLE_MONITORING") == "unset");
}

TEST_CASE("an attached rank has what standard input is, and time limits are suspended") {
    auto system = with_debuggers();
    for (const bool is_terminal : {false, true}) {
        system.has_input_terminal = is_terminal;
        const auto spec = resolved({"--attach=1", "--nproc-per-node=2"}, system);
        REQUIRE(spec.has_value());
        CHECK(to_agent_config(*spec).worker.attachment == agent::Attachment{1, is_terminal});
        CHECK(spec->grace.value == limits::attached_grace);
        CHECK(spec->grace.origin == "--attach");
        CHECK(variable(*spec, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
        CHECK(variable(*spec, "TORCH_NCCL_ENABLE_MONITORING") == "0");
    }
}

TEST_CASE("time limits that were given are kept for an attached rank") {
    auto system = with_debuggers();
    system.environment["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "3";
    const auto spec = resolved({"--attach=0", "--shutdown-timeout=5"}, system);
    REQUIRE(spec.has_value());
    CHECK(spec->grace.value == 5s);
    CHECK(variable(*spec, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
}

TEST_CASE("a rank to attach that cannot exist is refused") {
    CHECK(refusal({"--attach=1"}) == "--attach: '1': the job has rank 0 only");
    CHECK(refusal({"--attach=2", "-n2"}) == "--attach: '2': the job has the ranks 0 to 1");
    CHECK(refusal({"--attach=g0"}) == "--attach: 'g0': accepted is a rank of the job, from 0 up");
    CHECK(refusal({"--attach=-1"}) == "--attach: '-1': accepted is a rank of the job, from 0 up");
    // The rank may be on another node.
    CHECK(resolved({"--attach=7", "--nnodes=2", "--rdzv-endpoint=node9:29400"}).has_value());
}

TEST_CASE("the attached rank 0 keeps its terminal: its steps are not looked for") {
    CHECK(
        refusal({"--attach=0", "--progress-regex=step ([0-9]+)"}) ==
        "--progress-regex: 'step ([0-9]+)': given together with --attach=0: the output of rank 0 "
        "would be no terminal; leave one of the two out");
    CHECK(resolved({"--attach=1", "-n2", "--progress-regex=step ([0-9]+)"}).has_value());
}

TEST_CASE("a wrapper is found on PATH before anything starts, and a missing one is a mistake") {
    const auto spec = resolved({"--wrap=0: gdb -batch"});
    REQUIRE(spec.has_value());
    const auto wrapper = to_agent_config(*spec).worker.wrapper;
    REQUIRE(wrapper.has_value());
    CHECK(wrapper->program == "/usr/bin/gdb");
    CHECK(wrapper->arguments == Words{"gdb", "-batch"});
    CHECK(
        refusal({"--wrap=0: nsys profile"}) ==
        "--wrap: nsys: program not found on PATH\ngive its path, with a slash if it lies in this "
        "folder");
    CHECK(refusal({"--wrap=0: strace"}) == "--wrap: strace: cannot be executed\nchmod +x it");
    CHECK(refusal({"--wrap=gdb"}).starts_with("--wrap: 'gdb': accepted is 'RANKS: COMMAND'"));
}

TEST_CASE("--explain shows the attached rank and the wrapper") {
    auto system = with_debuggers();
    system.has_input_terminal = true;
    const Words words{"--attach=0", "--wrap=all: gdb -ex 'b main' --args", "train.py"};
    const auto options = parse_options(words, system.environment);
    REQUIRE(options.has_value());
    const auto spec = resolve(*options, system);
    REQUIRE(spec.has_value());
    const auto page = explain(*spec, *options, {log::Level::warning, "default"}, "here");
    const auto has = [&](const std::string& text) { return page.find(text) != std::string::npos; };
    CHECK(has("attached              rank 0: terminal               --attach\n"));
    CHECK(has("wrap                  all: gdb -ex 'b main' --args   --wrap\n"));
    CHECK(has("wrapper: /usr/bin/gdb -ex 'b main' --args\n"));
    CHECK(has("environment: TORCH_NCCL_ENABLE_MONITORING=0 (--attach)\n"));
}

TEST_CASE("--warm=1 has Python scripts started by the bootstrap, and nothing else") {
    CHECK(to_agent_config(*resolved({})).worker.bootstrap.empty());
    CHECK(to_agent_config(*resolved({"--warm=0"})).worker.bootstrap.empty());
    CHECK_FALSE(to_agent_config(*resolved({"--warm=1"})).worker.bootstrap.empty());
    CHECK(refusal({"--warm=9"}) == "--warm: '9': accepted are 0 and 1");
    CHECK(
        refusal({"--warm=1", "--wrap=0: gdb"}) ==
        "--warm: '1': given together with --wrap: a wrapped worker is not started early; leave one "
        "of the two out");
}
