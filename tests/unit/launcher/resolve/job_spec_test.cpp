// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/job_spec.hpp"

#include "launcher/grammar/node_range.hpp"
#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

Result<JobSpec> resolved(Words words, const SystemInfo& system) {
    words.emplace_back("train.py");
    const auto options = parse_options(words, system.environment);
    if (!options) return options.error();
    return resolve(*options, system);
}

JobSpec spec_of(const Words& words, const SystemInfo& system = a_machine()) {
    auto spec = resolved(words, system);
    if (spec) return *spec;
    FAIL(spec.error().context);
    return {};
}

std::string refusal(const Words& words, const SystemInfo& system = a_machine()) {
    const auto spec = resolved(words, system);
    return spec ? "accepted" : spec.error().context;
}

std::vector<std::string> events(const JobSpec& spec) {
    std::vector<std::string> names;
    for (const auto& notice : spec.notices)
        names.push_back(notice.event);
    return names;
}

const std::string random_id = "00112233-4455-6677-8899-aabbccddeeff";

}  // namespace

TEST_CASE("with nothing said, one worker runs alone on a port of its own under a random id") {
    const auto spec = spec_of({});

    CHECK(spec.nodes.value == control::NodeRange{1, 1, 0});
    CHECK(spec.nproc.value == 1);
    CHECK(spec.max_restarts.value == 0);
    CHECK(spec.endpoint.value == Endpoint{"localhost", 0});
    CHECK(spec.is_host.value == true);
    CHECK(spec.run_id.value == random_id);
    CHECK(spec.lease.value == Duration{30s});
    CHECK(spec.grace.value == Duration{30s});
    CHECK(spec.shares_store.value);
    CHECK(spec.environment == a_machine().environment);
    CHECK(spec.notices.empty());
}

TEST_CASE("several nodes without an endpoint are refused or warned about") {
    CHECK(
        refusal({"--nnodes=2"}) ==
        "--nnodes: '2': more than one node needs --rdzv-endpoint=HOST:PORT, the same on every "
        "node, where HOST is one of them");
    CHECK(
        events(spec_of({"--nnodes=2", "--rdzv-backend=c10d"})) ==
        Words{"rendezvous.endpoint_missing"});
    CHECK(
        events(spec_of({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint="})) ==
        Words{"rendezvous.endpoint_missing"});
    CHECK(refusal({"--nnodes=2", "--rdzv-endpoint=h:0"})
              .starts_with("--rdzv-endpoint: 'h:0': port 0"));
    CHECK(refusal({"--nnodes=2", "--standalone"})
              .starts_with("--standalone: '--nnodes=2': a standalone job"));
    CHECK(refusal({"--rdzv-backend=zeus"})
              .starts_with("--rdzv-backend: 'zeus': accepted are c10d, static, etcd and k8s"));
}

TEST_CASE("each wrong value is named as it was given, with what is accepted") {
    struct Row {
        std::string word;
        std::string answer;
    };
    const std::vector<Row> rows{
        {"--nnodes=4:2", "--nnodes: '4:2': MIN is larger than MAX; accepted are N"},
        {"--max-restarts=-1", "--max-restarts: '-1': accepted are 0 to 1000000"},
        {"--max-restarts=1000001", "--max-restarts: '1000001': accepted are 0 to 1000000"},
        {"--max_restarts=x", "--max_restarts: 'x': accepted are 0 to 1000000"},
        {"--nproc-per-node=0", "--nproc-per-node: '0': accepted are 1 to 4096, auto, gpu and cpu"},
        {"--nproc-per-node=xpu", "--nproc-per-node: 'xpu': only NVIDIA GPUs are counted"},
        {"--nproc-per-node=gpu", "--nproc-per-node: 'gpu': no NVIDIA GPU is visible"},
        {"--rdzv-endpoint=h:x", "--rdzv-endpoint: endpoint 'h:x': the port must be"},
        {"--rdzv-conf=join_timeout", "--rdzv-conf: 'join_timeout': accepted is KEY=VALUE"},
        {"--node-rank=-1", "--node-rank: '-1': accepted is a whole number from 0 up"},
        {"--node-rank=1", "--node-rank: '1': accepted are 0 to 0 with --nnodes=1"},
        {"--monitor-interval=0",
         "--monitor-interval: '0': accepted are seconds, or a number with ms, s, m, h or d, above "
         "0"},
        {"--shutdown-timeout=-1",
         "--shutdown-timeout: '-1': accepted are seconds, or a number with ms"},
        {"--port-range=5", "--port-range: '5': accepted is FIRST-LAST"},
        {"--port-range=9-8", "--port-range: '9-8': accepted is FIRST-LAST"},
        {"--port-range=1-65536", "--port-range: '1-65536': accepted is FIRST-LAST"},
        {"--late-nodes=later", "--late-nodes: 'later': accepted are restart, at-restart and never"},
        {"--node-unit=2",
         "--node-unit: '2': no multiple of it is in 1 (default); accepted there are 1"},
        {"--topology=rack7", "--topology: 'rack7': accepted are slurm, file:PATH and env:NAME"},
        {"--topology=env:RACK", "--topology: 'env:RACK': the variable RACK has no value here"},
        {"--topology=file:racks", "--topology: 'file:racks': the file cannot be read"},
        {"--max-losses=-1", "--max-losses: '-1': accepted are 0 to 1000000"},
        {"--xid=always", "--xid: 'always': accepted are auto and ignore"},
        {"--health-strict", "--health-strict: '1': needs --health-check: nothing is checked"},
        {"--max-losses=some", "--max-losses: 'some': accepted are 0 to 1000000"},
        {"--role=" + std::string(256, 'r'),
         "--role: '" + std::string(256, 'r') + "': accepted are"},
        {"--local-addr=10.99.0.0/16", "--local-addr: '10.99.0.0/16': no interface"},
    };
    for (const auto& row : rows) {
        CHECK(refusal({row.word}).starts_with(row.answer));
        CHECK(resolved({row.word}, a_machine()).error().code.value() == EINVAL);
    }
    CHECK(refusal({}, a_machine({{"PET_NNODES", "4:2"}})).starts_with("PET_NNODES: '4:2': MIN"));
    CHECK(
        refusal({"--nnodes=2:7", "--node-unit=2", "--master-addr=h", "--rdzv-backend=static"}) ==
        "--node-unit: '2': with static rendezvous all nodes must come, and 2:6+1 (--nnodes, "
        "--node-unit) leaves some out; give a number of nodes that is a multiple of it, or "
        "--rdzv-backend=c10d");
}

TEST_CASE("errors of GPUs are looked for, and a check may be strict") {
    const auto usual = spec_of({"--health-check=true"});
    CHECK(usual.follows_xids.value);
    CHECK_FALSE(usual.is_health_strict.value);
    const auto other = spec_of({"--health-check=true", "--health-strict", "--xid=ignore"});
    CHECK_FALSE(other.follows_xids.value);
    CHECK(other.is_health_strict.value);
    CHECK(other.is_health_strict.origin == "--health-strict");
}

TEST_CASE("of two mistakes torch's first is named") {
    CHECK(refusal({"--nproc-per-node=x", "--nnodes=x"}).starts_with("--nnodes"));
    CHECK(refusal({"--nproc-per-node=x", "--max-restarts=x"}).starts_with("--max-restarts"));
}

TEST_CASE("the number of workers is counted where it is left to us") {
    auto system = a_machine();
    CHECK(spec_of({"--nproc-per-node=cpu"}, system).nproc.value == 12);
    CHECK(spec_of({"--nproc-per-node=auto"}, system).nproc.value == 12);
    system.count_gpus = [] { return 8; };
    CHECK(spec_of({"--nproc-per-node=auto"}, system).nproc.value == 8);
    CHECK(spec_of({"--nproc-per-node=gpu"}, system).nproc.value == 8);
    system.environment["CUDA_VISIBLE_DEVICES"] = "3, 1";
    CHECK(spec_of({"--nproc-per-node=gpu"}, system).nproc.value == 2);
    system.environment["CUDA_VISIBLE_DEVICES"] = "0,-1,2";
    CHECK(spec_of({"--nproc-per-node=gpu"}, system).nproc.value == 1);
    system.environment["CUDA_VISIBLE_DEVICES"] = "";
    CHECK(spec_of({"--nproc-per-node=auto"}, system).nproc.value == 12);
}

TEST_CASE("a list of devices is what the workers see, one worker each") {
    auto system = a_machine({{"CUDA_VISIBLE_DEVICES", "7"}});
    system.count_gpus = [] { return 8; };

    const auto spec = spec_of({"--devices=0,2,4-5"}, system);
    CHECK(spec.nproc.value == 4);
    CHECK(spec.nproc.origin == "--devices");
    CHECK(spec.environment.at("CUDA_VISIBLE_DEVICES") == "0,2,4,5");

    CHECK(spec_of({"--devices=0,2", "--nproc-per-node=1"}, system).nproc.value == 1);
    CHECK(spec_of({"--devices=0,2", "--nproc-per-node=gpu"}, system).nproc.value == 2);
    CHECK(spec_of({"--devices=MIG-a,MIG-b", "--nproc-per-node=auto"}, system).nproc.value == 2);
    CHECK(refusal({"--devices=0,2", "--nproc-per-node=3"}, system)
              .starts_with("--nproc-per-node: '3': --devices names 2 devices"));
    CHECK(refusal({"--devices=8"}, system)
              .starts_with("--devices: '8': this machine has 8 GPUs, 0 to 7"));
}

TEST_CASE("HIP_VISIBLE_DEVICES counts before CUDA_VISIBLE_DEVICES where it has a value") {
    auto system = a_machine({{"CUDA_VISIBLE_DEVICES", "0"}, {"HIP_VISIBLE_DEVICES", "3,1,2"}});

    CHECK(spec_of({"--nproc-per-node=gpu"}, system).nproc.value == 3);
    CHECK(spec_of({"--virtual-local-rank", "--nproc-per-node=3"}, system).nproc.value == 3);
    CHECK(
        refusal({"--virtual-local-rank", "--nproc-per-node=4"}, system) ==
        "--virtual-local-rank: 'HIP_VISIBLE_DEVICES=3,1,2': that is fewer devices than the 4 "
        "workers of this node");
    const auto spec = spec_of({"--devices=4,5"}, system);
    CHECK(spec.environment.at("HIP_VISIBLE_DEVICES") == "4,5");
    CHECK(spec.environment.at("CUDA_VISIBLE_DEVICES") == "4,5");

    system.environment["HIP_VISIBLE_DEVICES"] = "";
    CHECK(spec_of({"--devices=4,5"}, system).environment.at("HIP_VISIBLE_DEVICES").empty());
    CHECK(refusal({"--virtual-local-rank", "--nproc-per-node=2"}, system)
              .starts_with("--virtual-local-rank: 'CUDA_VISIBLE_DEVICES=0'"));
}

TEST_CASE("a virtual local rank needs a device for each worker") {
    CHECK(spec_of({"--virtual-local-rank"}).has_virtual_local_rank.value);
    CHECK_FALSE(spec_of({}).has_virtual_local_rank.value);
    const auto two = a_machine({{"CUDA_VISIBLE_DEVICES", "4,5"}});
    CHECK(spec_of({"--virtual-local-rank", "--nproc-per-node=2"}, two).nproc.value == 2);
    CHECK(
        refusal({"--virtual-local-rank", "--nproc-per-node=3"}, two) ==
        "--virtual-local-rank: 'CUDA_VISIBLE_DEVICES=4,5': that is fewer devices than the 3 "
        "workers of this node");
}

TEST_CASE(
    "workers that share a GPU talk over the loopback, unless the environment says otherwise") {
    const auto system = a_machine({{"NCCL_ALGO", "Tree"}});
    const auto spec = spec_of({"--share-gpu", "--nproc-per-node=4"}, system);
    CHECK(spec.environment.at("DDPRUN_SHARE_GPU") == "1");
    CHECK(spec.environment.at("NCCL_NET") == "Socket");
    CHECK(spec.environment.at("NCCL_SOCKET_IFNAME") == "=lo");
    CHECK(spec.environment.at("NCCL_ALGO") == "Tree");

    const auto two_nodes = spec_of({"--share-gpu", "--nnodes=2", "--rdzv-endpoint=a"}, system);
    CHECK_FALSE(two_nodes.environment.contains("NCCL_SOCKET_IFNAME"));
    CHECK_FALSE(spec_of({}, system).environment.contains("DDPRUN_SHARE_GPU"));
    CHECK(refusal({"--share-gpu", "--virtual-local-rank"}, system)
              .starts_with("--share-gpu: given together with --virtual-local-rank"));
}

TEST_CASE("an old script gets its local rank as an argument, but not with --use-env") {
    CHECK(
        spec_of({"--pass-local-rank"}).command.arguments ==
        Words{"/usr/bin/python3", "-u", "train.py", "--local-rank=${local_rank}"});
    CHECK(
        spec_of({"--pass-local-rank", "--use_env"}).command.arguments ==
        Words{"/usr/bin/python3", "-u", "train.py"});
}

TEST_CASE("a path that torchrun would run inside Python is run with Python") {
    CHECK(
        spec_of({"--run-path", "--no-python"}).command.arguments ==
        Words{"/usr/bin/python3", "-u", "train.py"});
}

TEST_CASE("options about torchrun's Python are read as torchrun reads them, and said once") {
    CHECK(events(spec_of({"--start-method=fork"})) == Words{"option.unneeded"});
    CHECK(
        refusal({"--start-method=vfork"}) ==
        "--start-method: 'vfork': accepted are spawn, fork and forkserver");
    CHECK(events(spec_of({"--event-log-handler=null"})).empty());
    CHECK(events(spec_of({"--event-log-handler=console"})) == Words{"option.unneeded"});
    CHECK(events(spec_of({"--logs-specs=default"})).empty());
    CHECK(
        refusal({"--logs-specs=mine"}) ==
        "--logs-specs: 'mine': accepted is default: plug-ins written in Python are not loaded; "
        "--log-dir, --redirects and --tee choose what is written");
    CHECK(events(spec_of({"--exit-barrier-timeout=5"})) == Words{"option.unneeded"});
    CHECK(refusal({"--exit-barrier-timeout=x"}).starts_with("--exit-barrier-timeout: 'x'"));
}

TEST_CASE("torch's watchdog, which ddprun does not serve, is warned about where it is asked for") {
    const auto asked = [](const char* value) {
        return events(spec_of({}, a_machine({{"TORCHELASTIC_ENABLE_FILE_TIMER", value}})));
    };
    CHECK(asked("1") == Words{"option.ignored"});
    CHECK(asked("0").empty());
}

TEST_CASE("several workers get one OpenMP thread each unless OMP_NUM_THREADS is set") {
    const auto several = spec_of({"--nproc-per-node=2"});
    CHECK(several.environment.at("OMP_NUM_THREADS") == "1");
    CHECK(events(several) == Words{"environment.defaulted"});

    CHECK_FALSE(spec_of({}).environment.contains("OMP_NUM_THREADS"));

    const auto said = spec_of({"--nproc-per-node=2"}, a_machine({{"OMP_NUM_THREADS", "5"}}));
    CHECK(said.environment.at("OMP_NUM_THREADS") == "5");
    CHECK(said.notices.empty());
}

TEST_CASE("a lease is torch's product when one of its factors is given, and never too short") {
    const auto lease = [](const std::string& conf) {
        return spec_of({"--rdzv-conf=" + conf}).lease.value;
    };
    CHECK(lease("keep_alive_interval=4") == Duration{12s});
    CHECK(lease("keep_alive_max_attempt=8") == Duration{40s});
    CHECK(lease("keep_alive_interval=2,keep_alive_max_attempt=5") == Duration{10s});
    CHECK(lease("keep_alive_interval=1") == Duration{6s});
    CHECK(events(spec_of({"--rdzv-conf=keep_alive_interval=1"})) == Words{"lease.raised"});
    CHECK(lease("keep_alive_interval=90000") == Duration{24h});
}

TEST_CASE("time limits come from their keys, options and variables") {
    const auto spec = spec_of(
        {"--rdzv-conf=join_timeout=9,last_call_timeout=0.5,is_host=0", "--rdzv-endpoint=h"});
    CHECK(spec.join_timeout.value == Duration{9s});
    CHECK(spec.last_call_timeout.value == Duration{500ms});
    CHECK(spec.is_host.value == false);

    const auto torch = a_machine({{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}});
    CHECK(spec_of({}, torch).grace.value == Duration{7s});
    CHECK(spec_of({"--shutdown-timeout=2"}, torch).grace.value == Duration{2s});
    CHECK(events(spec_of({"--monitor-interval=0.1"})) == Words{"option.unneeded"});
}

TEST_CASE("a name that leads other nodes nowhere is known before Gloo uses it") {
    const auto problem =
        [](const Words& words, const std::optional<std::string>& address, Environment set = {}) {
            auto system = a_machine(std::move(set));
            system.own_name_address = [address] { return address; };
            return spec_of(words, system).own_name_problem;
        };
    const Words two{"--nnodes=2", "--rdzv-endpoint=h"};
    const auto host = a_machine().host_name;
    CHECK(problem(two, "127.0.1.1") == host + " is the name of 127.0.1.1 here");
    CHECK(problem(two, "::1") == host + " is the name of ::1 here");
    CHECK(problem(two, "") == host + " is the name of no address of this machine");
    CHECK(problem(two, "10.1.2.3").empty());
    CHECK(problem(two, "127.0.1.1", {{"GLOO_SOCKET_IFNAME", "eth1"}}).empty());
    CHECK(problem({}, "127.0.1.1").empty());
    CHECK(problem(two, std::nullopt).empty());
    for (const std::string here : {"localhost", "127.0.0.1", "[::1]"})
        CHECK(problem({"--nnodes=2", "--rdzv-endpoint=" + here}, "127.0.1.1").empty());
}

TEST_CASE("sharing of the workers' store is torch's switch") {
    CHECK_FALSE(
        spec_of({}, a_machine({{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}})).shares_store.value);
    CHECK(spec_of({}, a_machine({{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0"}})).shares_store.value);
}

TEST_CASE("a module and a program exclude each other, and something must be run") {
    CHECK(
        refusal({"-m", "--no_python"}) ==
        "-m: given together with --no_python: a module needs an interpreter; leave one of the two "
        "out");
    const auto nothing = resolve(Options{}, a_machine());
    CHECK(
        nothing.error().context ==
        "no script given: accepted is ddprun [OPTION]... SCRIPT [ARGUMENT]...");
}

TEST_CASE("the agent gets everything that was resolved") {
    const auto system = a_machine({{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}});
    const auto config = to_agent_config(spec_of(
        {"--nnodes=2:4+1",
         "--nproc-per-node=3",
         "--rdzv-backend=c10d",
         "--rdzv-endpoint=h:7",
         "--rdzv-id=job",
         "--rdzv-conf=is_host=1,join_timeout=9,last_call_timeout=8,keep_alive_interval=20",
         "--node-rank=2",
         "--local-addr=eth0",
         "--port-range=3000-3010",
         "--max-restarts=5",
         "--shutdown-timeout=6",
         "--restart-delay=5:60",
         "--restart-refill=1h",
         "--no-restart-on=3",
         "--late-nodes=at-restart",
         "--max-losses=7",
         "--signals-to-handle=SIGTERM",
         "--signals-to-forward=SIGUSR1",
         "--event-file=events",
         "--role=trainer"},
        system));

    CHECK(config.join.run_id == "job");
    CHECK(config.rendezvous.endpoint == Endpoint{"h", 7});
    CHECK(config.rendezvous.is_host == true);
    CHECK(config.join.nodes == control::NodeRange{2, 4, 1});
    control::Settings settings;
    settings.join_timeout = 9s;
    settings.last_call_timeout = 8s;
    settings.lease = 60s;
    settings.grace = 6s;
    settings.late_nodes = control::LateNodes::at_restart;
    settings.max_losses = 7;
    settings.restart = {5s, 60s, 1h, {3}, {}};
    CHECK(config.join.settings == settings);
    CHECK(config.join.max_restarts == 5);
    CHECK(config.join.node_rank == 2);
    CHECK(config.join.addr == "10.0.0.7");
    CHECK(config.first_port == 3000);
    CHECK(config.last_port == 3010);
    CHECK(config.join.node.host == "node1");
    CHECK_FALSE(config.shares_store);
    CHECK(config.accepted == wire::Accepted::current);
    CHECK(config.worker.program == "/usr/bin/python3");
    CHECK(config.worker.arguments == Words{"/usr/bin/python3", "-u", "train.py"});
    CHECK(config.worker.environment.at("OMP_NUM_THREADS") == "1");
    CHECK(config.worker.environment.at("TORCHELASTIC_SIGNALS_TO_HANDLE") == "SIGTERM");
    CHECK(config.worker.nproc == 3);
    CHECK(config.worker.role == "trainer");
    CHECK(config.forwarded_signals == std::vector<int>{SIGUSR1});
    CHECK(config.event_file == "events");
}

TEST_CASE("the log's level is the option's, else LOGLEVEL's, and a trace is a trace") {
    const auto level = [](const Words& words, const Environment& environment) {
        std::vector<Notice> notices;
        const auto found = log_level(*parse_options(words, environment), environment, notices);
        return found ? std::string{log::level_name(found->value)} +
                           (notices.empty() ? "" : ", " + notices[0].reason)
                     : found.error().context;
    };
    CHECK(level({}, {}) == "warning");
    CHECK(level({}, {{"LOGLEVEL", "INFO"}}) == "info");
    CHECK(level({"--log-level=debug"}, {{"LOGLEVEL", "INFO"}}) == "debug");
    CHECK(level({}, {{"PET_LOG_LEVEL", "error"}}) == "error");
    CHECK(level({"--log-level=error"}, {{"DDPRUN_TRACE", "1"}}) == "trace");
    CHECK(level({}, {{"DDPRUN_TRACE", "0"}}) == "warning");
    CHECK(
        level({"--log-level=loud"}, {}) ==
        "--log-level: 'loud': accepted are error, warning, info, debug and trace");
    CHECK(
        level({}, {{"LOGLEVEL", "loud"}}) ==
        "warning, LOGLEVEL: 'loud': accepted are error, warning, info, debug and trace");
}

TEST_CASE("ranks that no worker here has are said, those of other nodes are not judged") {
    const auto warnings = [](const Words& words) {
        std::string text;
        for (const auto& notice : spec_of(words).notices)
            if (notice.event == "option.ignored") text += notice.reason + "\n";
        return text;
    };
    CHECK(
        warnings({"-np", "2", "--local-ranks-filter=2,5-7"}) ==
        "--local-ranks-filter=2,5-7 means no worker of this node, which has local ranks 0 to 1\n");
    CHECK(
        warnings({"-r", "1:3", "-t", "g4:1"}) ==
        "-r=1:3 means no worker of this node, which has local rank 0 only\n"
        "-t=g4:1 means no worker of this node, which has local rank 0 only\n");
    CHECK(warnings({"-np", "2", "-r", "1:3,7:1", "-t", "3"}).empty());
    CHECK(warnings({"--nnodes=2", "--rdzv-endpoint=h", "-t", "g4:1"}).empty());
}
