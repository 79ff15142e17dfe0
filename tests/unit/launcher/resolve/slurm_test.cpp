// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/slurm.hpp"

#include "launcher/resolve/job_spec.hpp"
#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

/// The variables of srun for one task per node on three nodes, on the second one.
Environment step_of_three() {
    return {
        {"SLURM_JOB_ID", "42"},
        {"SLURM_STEP_ID", "1"},
        {"SLURM_STEP_NUM_NODES", "3"},
        {"SLURM_STEP_NUM_TASKS", "3"},
        {"SLURM_STEP_NODELIST", "n[07-08],gpu3"},
        {"SLURM_NODEID", "1"}};
}

Environment with(Environment variables, const std::string& name, const std::string& value) {
    variables[name] = value;
    return variables;
}

/// "slurm-42.1#0: 3 nodes, c10d n07:31555 rank 1, connects" or what is wrong.
std::string job_of(const Words& words, const Environment& variables) {
    const auto spec = resolved_with(words, variables);
    if (!spec) return spec.error().context;
    const auto& nodes = spec->nodes.value;
    std::string text = spec->run_id.value;
    if (spec->incarnation) text += "#" + *spec->incarnation;
    text += ": " + std::to_string(nodes.min);
    if (nodes.max != nodes.min) text += ":" + std::to_string(nodes.max);
    if (nodes.spares > 0) text += "+" + std::to_string(nodes.spares);
    text += spec->is_static.value ? ", static " : ", c10d ";
    text += spec->endpoint.value.to_string();
    if (spec->node_rank.value) text += " rank " + std::to_string(*spec->node_rank.value);
    if (spec->is_host.value) text += *spec->is_host.value ? ", serves" : ", connects";
    return text;
}

}  // namespace

TEST_CASE("the first host of a list of hosts is found without Slurm's programs") {
    CHECK(first_host_of("n1") == "n1");
    CHECK(first_host_of("n[001-128,130],gpu-a[7-9]") == "n001");
    CHECK(first_host_of("gpu-a[7,9-12]") == "gpu-a7");
    CHECK(first_host_of("a.example.com,b") == "a.example.com");
    CHECK(first_host_of("rack[2-3]n[09-10]x,y") == "rack2n09x");
    for (const auto* wrong :
         {"", ",", "n[", "n[1-2", "n[]", "n[a-b]", "n 1", "n[1]]", "n;1", "[-2]"})
        CHECK_MESSAGE(first_host_of(wrong).empty(), wrong);
}

TEST_CASE("a step of one agent per node says everything that the options leave out") {
    const auto step = step_of_three();
    CHECK(job_of({}, step) == "slurm-42.1#0: 3, c10d n07:31555 rank 1, connects");
    CHECK(
        job_of({}, with(step, "SLURM_NODEID", "0")) ==
        "slurm-42.1#0: 3, c10d n07:31555 rank 0, serves");
    CHECK(
        job_of({}, with(step, "SLURM_RESTART_COUNT", "2")) ==
        "slurm-42.1#2: 3, c10d n07:31555 rank 1, connects");
    CHECK(
        job_of({"--rdzv-backend=c10d", "--rdzv-id=mine"}, step) ==
        "mine#0: 3, c10d n07:31555 rank 1, connects");
    CHECK(
        job_of({"--rdzv-backend=static"}, step) ==
        "slurm-42.1#0: 3, static n07:31555 rank 1, connects");
    CHECK(job_of({"--nnodes=2:3"}, step) == "slurm-42.1#0: 2:3, c10d n07:31555 rank 1, connects");
    // A spare takes any place.
    CHECK(job_of({"--nnodes=2+1"}, step) == "slurm-42.1#0: 2+1, c10d n07:31555, connects");
    CHECK(
        job_of({"--port-range=30000-30009"}, step) ==
        "slurm-42.1#0: 3, c10d n07:30005 rank 1, connects");
}

TEST_CASE("a step starts no replacement") {
    const auto limit = [](const Words& words, const Environment& variables) {
        return resolved_with(words, variables)->replacement_timeout.value;
    };
    const auto step = step_of_three();
    CHECK(limit({}, step) == Duration{});
    CHECK(limit({"--replacement-timeout=5m"}, step) == std::chrono::minutes{5});
    CHECK_FALSE(limit({"--rdzv-endpoint=h:7"}, step).has_value());
    CHECK_FALSE(limit({}, {}).has_value());
    CHECK(resolved_with({"--replacement-timeout=soon"}, {})
              .error()
              .context.starts_with("--replacement-timeout: 'soon': accepted are "));
}

TEST_CASE("what the options say counts more than the step") {
    const auto step = step_of_three();
    CHECK(job_of({"--rdzv-endpoint=h:7"}, step) == "none: 3, c10d h:7");
    CHECK(job_of({"--master-addr=h"}, step) == "none: 3, static h:29500 rank 1, connects");
    CHECK(job_of({"--standalone"}, step).find("1, c10d localhost:0, serves") != std::string::npos);
    CHECK(job_of({"--nnodes=1"}, step).find("1, c10d localhost:0, serves") != std::string::npos);
    CHECK(
        job_of({"--nnodes=2"}, step) ==
        "--nnodes: '2': this Slurm step starts ddprun on 3 nodes; leave the option out, or give "
        "srun as many nodes");
    // A separate step for each node, as in some scripts.
    const auto own_step =
        with(with(step, "SLURM_STEP_NUM_NODES", "1"), "SLURM_STEP_NUM_TASKS", "1");
    CHECK(job_of({"--nnodes=3", "--rdzv-endpoint=h:7"}, own_step) == "none: 3, c10d h:7");
}

TEST_CASE("only a step of several tasks is one job") {
    const std::string alone = ": 1, c10d localhost:0, serves";
    auto batch_script = step_of_three();
    batch_script.erase("SLURM_STEP_NUM_NODES");
    CHECK(job_of({}, batch_script).find(alone) != std::string::npos);
    // A worker's variables are inherited from its agent's.
    const auto worker = with(step_of_three(), "TORCHELASTIC_RUN_ID", "slurm-42.1");
    CHECK(job_of({}, worker).find(alone) != std::string::npos);
    const Environment one_task{{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}};
    CHECK(job_of({}, one_task).find(alone) != std::string::npos);
}

TEST_CASE("several agents per node of a step are refused unless each has a place by request") {
    const auto two_each = with(step_of_three(), "SLURM_STEP_NUM_TASKS", "6");
    const std::string refused =
        "SLURM_STEP_NUM_TASKS: '6': srun started ddprun 6 times on 3 nodes, and ddprun starts the "
        "workers itself: use srun --ntasks-per-node=1 and ddprun --nproc-per-node=2, or "
        "--standalone for a job of each ddprun alone";
    CHECK(job_of({}, two_each) == refused);
    CHECK(job_of({"--nnodes=3"}, two_each) == refused);
    CHECK(job_of({"--nnodes=3", "--rdzv-endpoint=h:7"}, two_each) == refused);
    CHECK(job_of({"--nnodes=6"}, two_each) == refused);
    CHECK(job_of({"--nnodes=6", "--rdzv-endpoint=h:7"}, two_each) == "none: 6, c10d h:7");
    CHECK(job_of({"--nnodes=1"}, two_each).find("localhost:0, serves") != std::string::npos);
    CHECK(job_of({"--standalone"}, two_each).find("localhost:0, serves") != std::string::npos);
    const auto one_node = with(with(two_each, "SLURM_STEP_NUM_NODES", "1"), "SLURM_NODEID", "0");
    CHECK(job_of({}, one_node).starts_with("SLURM_STEP_NUM_TASKS: '6': srun started ddprun 6 "));
}

TEST_CASE("a variable of the step that cannot be read is named") {
    for (const auto* name :
         {"SLURM_JOB_ID",
          "SLURM_STEP_ID",
          "SLURM_STEP_NUM_NODES",
          "SLURM_STEP_NUM_TASKS",
          "SLURM_NODEID",
          "SLURM_STEP_NODELIST"}) {
        const auto wrong = with(step_of_three(), name, "x[");
        CHECK(job_of({}, wrong).starts_with(std::string{name} + ": 'x[': this variable"));
        CHECK(job_of({"--standalone"}, wrong).find("localhost:0, serves") != std::string::npos);
    }
    const auto too_big = with(step_of_three(), "SLURM_STEP_NUM_NODES", "99999999999");
    CHECK(job_of({}, too_big).starts_with("SLURM_STEP_NUM_NODES: '99999999999': this variable"));
    const auto outside = with(step_of_three(), "SLURM_NODEID", "3");
    CHECK(job_of({}, outside).starts_with("SLURM_NODEID: '3': this variable"));
}

TEST_CASE("a step's switches order its nodes, in place of their numbers") {
    auto step = with(step_of_three(), "SLURM_TOPOLOGY_ADDR", "core.rack7.n08");
    step["SLURM_TOPOLOGY_ADDR_PATTERN"] = "switch.switch.node";
    const auto spec = resolved_with({"--topology=slurm"}, step);
    REQUIRE(spec.has_value());
    CHECK(spec->node.topology == "core/rack7");
    CHECK_FALSE(spec->node_rank.value);
    CHECK(to_agent_config(*spec).join.node.topology == "core/rack7");
    // A requested place, and fixed places, do not depend on it.
    CHECK(
        job_of({"--topology=slurm", "--rdzv-backend=static"}, step).find("rank 1") !=
        std::string::npos);
    CHECK(job_of({"--topology=slurm", "--node-rank=2"}, step).find("rank 2") != std::string::npos);
    CHECK(job_of({"--topology=slurm"}, with(step, "SLURM_TOPOLOGY_ADDR_PATTERN", "node"))
              .starts_with("--topology: 'slurm': Slurm names no switches here"));
    CHECK(switches_of("s0.n7.example.com", "switch.node") == "s0");
    CHECK(switches_of("", "") == "");
}

TEST_CASE("a unit of nodes is checked against those of the step") {
    const auto step = step_of_three();
    CHECK(
        job_of({"--node-unit=2"}, step) ==
        "--node-unit: '2': no multiple of it is in 3 (SLURM_STEP_NUM_NODES); accepted there are "
        "1, 3");
    // The third node is a spare: which one is not known.
    CHECK(
        job_of({"--nnodes=1:3", "--node-unit=2"}, step).find(": 2+1, c10d n07:31555, connects") !=
        std::string::npos);
    CHECK(job_of({"--node-unit=3"}, step).find(": 3, c10d n07:31555 rank 1") != std::string::npos);
}

TEST_CASE("Slurm signals every process unless the step has a control group") {
    const auto step = step_of_three();
    CHECK(signals_every_process(step, "0::/system.slice/slurmd.service\n"));
    CHECK(signals_every_process(step, "4:memory:/slurm/uid_0/job_7/step_0\n"));
    CHECK_FALSE(signals_every_process(step, "6:freezer:/slurm_n1/uid_0/job_42/step_1\n0::/\n"));
    CHECK_FALSE(signals_every_process(
        step, "0::/system.slice/slurmstepd.scope/job_42/step_1/user/task_0\n"));
    CHECK_FALSE(signals_every_process({{"SLURM_JOB_ID", "42"}}, "0::/\n"));
}

TEST_CASE("a shell between Slurm and ddprun is warned of: it gets the signals") {
    const std::string own_group = "0::/system.slice/slurmstepd.scope/job_42/step_1/user/task_0\n";
    const auto events = [&](const std::string& parent,
                            const std::string& task,
                            bool has_input_terminal,
                            const std::string& cgroups) {
        SystemInfo system;
        system.has_input_terminal = has_input_terminal;
        system.own_cgroups = cgroups;
        system.environment = with(step_of_three(), "SLURM_TASK_PID", task);
        system.environment["PATH"] = "/usr/bin";
        system.fresh_id = *Nonce::parse("00112233445566778899aabbccddeeff");
        system.look_at = [](const std::string&) { return PathLook{true, false, true, true}; };
        system.parent_pid = 700;
        system.parent_name = parent;
        const Words words{"train.py"};
        const auto options = parse_options(words, system.environment);
        const auto spec = resolve(*options, system);
        Words names;
        for (const auto& notice : spec->notices)
            names.push_back(notice.event);
        return names;
    };
    CHECK(events("bash", "700", false, own_group) == Words{"slurm.step", "slurm.behind_shell"});
    CHECK(events("slurmstepd", "701", false, own_group) == Words{"slurm.step"});
    CHECK(events("bash", "699", false, own_group) == Words{"slurm.step"});
    // srun --pty bash: the command is typed in.
    CHECK(events("bash", "700", true, own_group) == Words{"slurm.step"});
    // Every process gets the signals.
    CHECK(events("bash", "700", false, "0::/\n") == Words{"slurm.step"});
}
