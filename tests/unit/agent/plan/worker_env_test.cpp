// SPDX-License-Identifier: Apache-2.0
#include "agent/plan/worker_env.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;

namespace {

WorkerSpec a_spec() {
    WorkerSpec spec;
    spec.program = "/usr/bin/python3";
    spec.arguments = {"/usr/bin/python3", "-u", "train.py", "--log=${local_rank}.txt"};
    spec.environment = {{"HOME", "/root"}, {"OMP_NUM_THREADS", "1"}, {"RANK", "stale"}};
    spec.nproc = 2;
    spec.role = "trainer";
    return spec;
}

RoundPlan a_plan() {
    RoundPlan plan;
    plan.assignment.round = 3;
    plan.assignment.restart_count = 2;
    plan.assignment.group_rank = 1;
    plan.assignment.group_world_size = 2;
    plan.assignment.rank_base = 4;
    plan.assignment.world_size = 6;
    plan.assignment.role_rank_base = 1;
    plan.assignment.role_world_size = 3;
    plan.assignment.master_addr = "10.0.0.2";
    plan.assignment.master_port = 20'011;
    plan.run_id = "job7";
    plan.incarnation = "abc";
    plan.error_folder = *Nonce::parse("0123456789abcdef0123456789abcdef");
    plan.node_addr = "10.0.0.3";
    plan.max_restarts = 5;
    plan.grace = std::chrono::milliseconds{2500};
    return plan;
}

}  // namespace

TEST_CASE("a worker's environment is torchrun's, name by name") {
    const auto environment = worker_environment(a_spec(), a_plan(), 1);

    const std::vector<std::string> expected{
        "DDPRUN_INCARNATION=abc",
        "DDPRUN_NODE_ADDR=10.0.0.3",
        "DDPRUN_ROUND=3",
        "DDPRUN_SHUTDOWN_TIMEOUT=2.5",
        "GROUP_RANK=1",
        "GROUP_WORLD_SIZE=2",
        "HOME=/root",
        "LOCAL_RANK=1",
        "LOCAL_WORLD_SIZE=2",
        "MASTER_ADDR=10.0.0.2",
        "MASTER_PORT=20011",
        "OMP_NUM_THREADS=1",
        "RANK=5",
        "ROLE_NAME=trainer",
        "ROLE_RANK=2",
        "ROLE_WORLD_SIZE=3",
        "TORCHELASTIC_ERROR_FILE=/tmp/ddprun-0123456789abcdef0123456789abcdef/3-1.json",
        "TORCHELASTIC_MAX_RESTARTS=5",
        "TORCHELASTIC_RESTART_COUNT=2",
        "TORCHELASTIC_RUN_ID=job7",
        "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        "TORCHELASTIC_USE_AGENT_STORE=True",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        "WORLD_SIZE=6",
    };
    CHECK(environment == expected);
}

TEST_CASE("what a person set for NCCL and signals stays") {
    auto spec = a_spec();
    spec.environment["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "3";
    spec.environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGUSR2";
    const auto environment = worker_environment(spec, a_plan(), 0);

    const auto has = [&](const std::string& line) {
        return std::find(environment.begin(), environment.end(), line) != environment.end();
    };
    CHECK(has("TORCH_NCCL_ASYNC_ERROR_HANDLING=3"));
    CHECK(has("TORCHELASTIC_SIGNALS_TO_HANDLE=SIGUSR2"));
}

TEST_CASE("without the shared store the environment has the workers make their own") {
    auto plan = a_plan();
    plan.shares_store = false;
    const auto environment = worker_environment(a_spec(), plan, 0);

    CHECK(
        std::find(environment.begin(), environment.end(), "TORCHELASTIC_USE_AGENT_STORE=False") !=
        environment.end());
}

TEST_CASE("the end of the allocation is the workers' deadline, an earlier allocation's is not") {
    auto spec = a_spec();
    const auto deadline = [&] {
        const std::string name = "DDPRUN_DEADLINE=";
        for (const auto& line : worker_environment(spec, a_plan(), 0))
            if (line.starts_with(name)) return line.substr(name.size());
        return std::string{};
    };
    CHECK(deadline().empty());
    spec.environment["DDPRUN_DEADLINE"] = "1700000000";
    CHECK(deadline() == "1700000000");
    spec.environment["SLURM_JOB_END_TIME"] = "1800000000";
    CHECK(deadline() == "1800000000");
}

TEST_CASE("each worker has its own way to its page, and never an outer ddprun's") {
    auto spec = a_spec();
    auto plan = a_plan();
    const auto channel = [&](int local_rank) {
        const std::string name = "DDPRUN_CHANNEL=";
        for (const auto& line : worker_environment(spec, plan, local_rank))
            if (line.starts_with(name)) return line.substr(name.size());
        return std::string{"none"};
    };
    spec.environment["DDPRUN_CHANNEL"] = "@ddprun/1/0/7/outer";
    CHECK(channel(0) == "none");
    plan.channels = {"@ddprun/1/0/42/a", "@ddprun/1/0/42/b"};
    CHECK(channel(0) == "@ddprun/1/0/42/a");
    CHECK(channel(1) == "@ddprun/1/0/42/b");
}

TEST_CASE("Gloo's interface is given where one was chosen and the user has not") {
    auto spec = a_spec();
    auto plan = a_plan();
    const auto has = [&](const std::string& line) {
        const auto environment = worker_environment(spec, plan, 0);
        return std::find(environment.begin(), environment.end(), line) != environment.end();
    };
    plan.gloo_interface = "eth0";
    CHECK(has("GLOO_SOCKET_IFNAME=eth0"));
    spec.environment["GLOO_SOCKET_IFNAME"] = "ib0";
    CHECK(has("GLOO_SOCKET_IFNAME=ib0"));
}

TEST_CASE("the error file lies where the worker's own temporary files do") {
    auto spec = a_spec();
    spec.environment["TMPDIR"] = "/scratch/";
    CHECK(
        error_file_path(spec, a_plan(), 0) ==
        "/scratch/ddprun-0123456789abcdef0123456789abcdef/3-0.json");
    spec.environment["TMPDIR"] = "";
    CHECK(
        error_file_path(spec, a_plan(), 0) ==
        "/tmp/ddprun-0123456789abcdef0123456789abcdef/3-0.json");
}

TEST_CASE("arguments go through torchrun's template, the program's name does not") {
    auto spec = a_spec();
    spec.arguments[0] = "$local_rank";
    CHECK(
        worker_arguments(spec, a_plan(), 1) ==
        std::vector<std::string>{"$local_rank", "-u", "train.py", "--log=1.txt"});
}

TEST_CASE("only known names and the doubled dollar are replaced") {
    auto plan = a_plan();
    plan.assignment.rank_base = 30;
    plan.assignment.group_rank = 4;
    const auto expanded = [&](const std::string& text) {
        WorkerSpec spec;
        spec.arguments = {"program", text};
        return worker_arguments(spec, plan, 7)[1];
    };
    CHECK(expanded("$local_rank") == "7");
    CHECK(expanded("a${local_rank}b$local_rank.txt") == "a7b7.txt");
    CHECK(expanded("$$local_rank") == "$local_rank");
    CHECK(expanded("$$$local_rank") == "$7");
    CHECK(expanded("$local_rankx") == "$local_rankx");
    CHECK(expanded("${local_rank") == "${local_rank");
    CHECK(expanded("${other} $other $ $1 ${}") == "${other} $other $ $1 ${}");
    CHECK(expanded("cost: 5$") == "cost: 5$");
    CHECK(expanded("") == "");
    CHECK(expanded("${rank}-${group_rank}-${local_rank}") == "37-4-7");
    CHECK(expanded("$rank $group_rank $${rank}") == "$rank $group_rank ${rank}");
}

TEST_CASE("workers that share a GPU are hosts of their own to NCCL") {
    auto spec = a_spec();
    const auto host_id = [&](int local_rank) {
        for (const auto& line : worker_environment(spec, a_plan(), local_rank))
            if (line.starts_with("NCCL_HOSTID=")) return line;
        return std::string{};
    };
    CHECK(host_id(0).empty());
    spec.environment["DDPRUN_SHARE_GPU"] = "1";
    CHECK(host_id(0).ends_with("-r4"));
    CHECK(host_id(1).ends_with("-r5"));
    spec.environment["NCCL_HOSTID"] = "mine";
    CHECK(host_id(1) == "NCCL_HOSTID=mine");
}

TEST_CASE("with a virtual local rank each worker sees one GPU and takes it for its first") {
    auto spec = a_spec();
    spec.has_virtual_local_rank = true;
    const auto has = [&](const std::string& line) {
        const auto environment = worker_environment(spec, a_plan(), 1);
        return std::find(environment.begin(), environment.end(), line) != environment.end();
    };
    CHECK(has("LOCAL_RANK=0"));
    CHECK(has("CUDA_VISIBLE_DEVICES=1"));
    spec.environment["CUDA_VISIBLE_DEVICES"] = "4, GPU-ab-cd ,6";
    CHECK(has("CUDA_VISIBLE_DEVICES=GPU-ab-cd"));
    spec.environment["CUDA_VISIBLE_DEVICES"] = "";
    CHECK(has("CUDA_VISIBLE_DEVICES=1"));
    spec.environment["CUDA_VISIBLE_DEVICES"] = "8,9";
    spec.environment["HIP_VISIBLE_DEVICES"] = "";
    CHECK(has("CUDA_VISIBLE_DEVICES=9"));
    CHECK(has("HIP_VISIBLE_DEVICES="));
    spec.environment["HIP_VISIBLE_DEVICES"] = "6, 7";
    CHECK(has("CUDA_VISIBLE_DEVICES=7"));
    CHECK(has("HIP_VISIBLE_DEVICES=7"));
    spec.arguments = {"train", "--log=${local_rank}"};
    CHECK(worker_arguments(spec, a_plan(), 1)[1] == "--log=1");
}

TEST_CASE("a wrapper stands before the command of its ranks, %r is the rank") {
    auto spec = a_spec();
    spec.arguments.front() = "python3";
    spec.wrapper = Wrapper{{{1, 1, false}}, "/usr/bin/nsys", {"nsys", "-o", "r%r.%%r%"}};
    // Rank 4 is the node's first.
    CHECK(worker_program(spec, a_plan(), 0) == "/usr/bin/python3");
    CHECK(worker_arguments(spec, a_plan(), 0).front() == "python3");
    CHECK(worker_program(spec, a_plan(), 1) == "/usr/bin/nsys");
    CHECK(
        worker_arguments(spec, a_plan(), 1) ==
        std::vector<std::string>{
            "nsys", "-o", "r5.%r%", "/usr/bin/python3", "-u", "train.py", "--log=1.txt"});

    spec.wrapper->ranks = {{4, 4, true}};
    CHECK(worker_program(spec, a_plan(), 0) == "/usr/bin/nsys");
    CHECK(worker_program(spec, a_plan(), 1) == "/usr/bin/python3");
}

TEST_CASE("the attached rank is one of this node's, or of another node") {
    auto spec = a_spec();
    const auto local_rank_of = [&](int rank) {
        spec.attachment = Attachment{rank, true};
        return attached_local_rank(spec, a_plan());
    };
    CHECK_FALSE(attached_local_rank(spec, a_plan()));
    CHECK_FALSE(local_rank_of(3));
    CHECK(local_rank_of(4) == 0);
    CHECK(local_rank_of(5) == 1);
    CHECK_FALSE(local_rank_of(6));
}

TEST_CASE("workers reach a members-only store at their own node, and know where it is") {
    auto spec = a_spec();
    spec.environment["DDPRUN_MASTER_ADDR"] = "of an outer job";
    const auto value_of = [&](const RoundPlan& plan, const std::string& name) {
        for (const auto& line : worker_environment(spec, plan, 0))
            if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
        return std::string{"-"};
    };
    auto plan = a_plan();
    CHECK(value_of(plan, "DDPRUN_MASTER_ADDR") == "-");
    plan.local_store = Endpoint{"127.0.0.1", 40'000};
    CHECK(value_of(plan, "MASTER_ADDR") == "127.0.0.1");
    CHECK(value_of(plan, "MASTER_PORT") == "40000");
    CHECK(value_of(plan, "DDPRUN_MASTER_ADDR") == "10.0.0.2");
}

TEST_CASE("a parked process has the script's name and no rank, a worker beside it the whole line") {
    auto spec = a_spec();
    spec.bootstrap = "import $rank";
    using Words = std::vector<std::string>;
    CHECK(
        worker_arguments(spec, a_plan(), 1) ==
        Words{"/usr/bin/python3", "-u", "-c", "import $rank", "--", "train.py", "--log=1.txt"});
    CHECK(
        parked_arguments(spec, a_plan(), 1) ==
        Words{"/usr/bin/python3", "-u", "-c", "import $rank", "--parked", "train.py"});
    CHECK(
        parked_environment(spec, a_plan(), 1) ==
        Words{
            "HOME=/root",
            "LOCAL_RANK=1",
            "LOCAL_WORLD_SIZE=2",
            "OMP_NUM_THREADS=1",
            "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"});
    spec.arguments = {"/usr/bin/python3", "-u", "-m", "pkg.train", "--lr", "0.1"};
    CHECK(parked_arguments(spec, a_plan(), 0).back() == "pkg.train");
}
