// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/kubernetes.hpp"

#include "launcher/resolve/job_spec.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

/// Written by the kubelet for a pod whose template has a subdomain.
const std::string hosts =
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost\n"
    "10.1.2.3\tbert-2.workers.team.svc.cluster.local\tbert-2\n";

struct Pod {
    std::string name = "bert-2";
    std::string index = "2";
    std::string hosts = ::hosts;
};

Result<JobSpec> resolved(Words words, const Pod& pod, const Environment& variables = {}) {
    words.emplace_back("train.py");
    SystemInfo system;
    system.environment = variables;
    system.environment["JOB_COMPLETION_INDEX"] = pod.index;
    system.host_name = pod.name;
    system.read_hosts = [&] { return pod.hosts; };
    system.fresh_id = *Nonce::parse("00112233445566778899aabbccddeeff");
    system.look_at = [](const std::string&) { return PathLook{true, false, true, true}; };
    const auto options = parse_options(words, system.environment);
    if (!options) return options.error();
    return resolve(*options, system);
}

/// "bert: c10d bert-0.workers:29400 rank 2, connects" or what is wrong.
std::string job_of(const Words& words, const Pod& pod = {}, const Environment& variables = {}) {
    const auto spec = resolved(words, pod, variables);
    if (!spec) return spec.error().context;
    std::string text = spec->run_id.value + (spec->is_static.value ? ": static " : ": c10d ") +
                       spec->endpoint.value.to_string();
    if (spec->node_rank.value) text += " rank " + std::to_string(*spec->node_rank.value);
    if (spec->is_host.value) text += *spec->is_host.value ? ", serves" : ", connects";
    return text;
}

const Pod first{"bert-0", "0", "10.1.2.1\tbert-0.workers.team.svc.cluster.local\tbert-0\n"};

}  // namespace

TEST_CASE("the index of a pod and its names are the place in the job and the endpoint") {
    const std::string at = "bert-0.workers.team.svc.cluster.local:29400";
    CHECK(job_of({"--nnodes=4"}) == "bert: c10d " + at + " rank 2, connects");
    CHECK(job_of({"--nnodes=4"}, first) == "bert: c10d " + at + " rank 0, serves");
    CHECK(job_of({"--nnodes=2:4"}) == "bert: c10d " + at + " rank 2, connects");
    CHECK(job_of({}, {}, {{"PET_NNODES", "4"}}) == "bert: c10d " + at + " rank 2, connects");
    CHECK(
        job_of({"--nnodes=4", "--rdzv-backend=static"}) ==
        "bert: static " + at + " rank 2, connects");
    CHECK(job_of({"--nnodes=4", "--rdzv-id=mine"}) == "mine: c10d " + at + " rank 2, connects");
    // A spare has no place of its own.
    CHECK(job_of({"--nnodes=3+1"}) == "bert: c10d " + at + ", connects");
    // setHostnameAsFQDN: true
    CHECK(
        job_of({"--nnodes=4"}, {"bert-2.workers.team.svc", "2", ""}) ==
        "bert: c10d bert-0.workers.team.svc:29400 rank 2, connects");
}

TEST_CASE("an option that was given counts more than the pod") {
    const Environment five{
        {"PET_NNODES", "4"},
        {"PET_NPROC_PER_NODE", "2"},
        {"PET_NODE_RANK", "3"},
        {"PET_MASTER_ADDR", "bert-node-0-0.bert"},
        {"PET_MASTER_PORT", "29500"}};
    CHECK(job_of({}, {}, five) == "none: static bert-node-0-0.bert:29500 rank 3, connects");
    CHECK(job_of({"--nnodes=4", "--rdzv-endpoint=service:29400"}) == "none: c10d service:29400");
    CHECK(
        job_of({"--nnodes=4", "--master-addr=service"}) ==
        "none: static service:29500 rank 2, connects");
    CHECK(
        job_of({"--nnodes=4", "--master-addr=service", "--node-rank=1"}) ==
        "none: static service:29500 rank 1, connects");
    CHECK(job_of({"--nnodes=4", "--node-rank=0"}).ends_with(" rank 0, connects"));
}

TEST_CASE("pods of which each is a job of its own, and workers of a pod, have no place in one") {
    const std::string alone = "00112233-4455-6677-8899-aabbccddeeff: c10d localhost:0, serves";
    CHECK(job_of({}) == alone);
    CHECK(job_of({"--standalone"}) == alone);
    const auto worker = job_of({"--nnodes=4"}, {}, {{"TORCHELASTIC_RUN_ID", "bert"}});
    CHECK(worker.find("needs --rdzv-endpoint") != std::string::npos);
}

TEST_CASE("a pod whose job cannot be named is refused with what to set") {
    const std::string remedy =
        "JOB_COMPLETION_INDEX: '2': the name of the job's first pod is not known here: set "
        "subdomain in the pod template to the name of a headless service, or give "
        "--rdzv-endpoint=HOST:PORT, the same in every pod";
    CHECK(job_of({"--nnodes=4"}, {"bert-2", "2", "10.1.2.3\tbert-2\n"}) == remedy);
    CHECK(job_of({"--nnodes=4"}, {"bert-2", "2", ""}) == remedy);
    CHECK(
        job_of({"--nnodes=4"}, {"bert-2", "2", "10.1.2.3 other.a bert-20.b # bert-2.c"}) == remedy);
    // The machine's name, with hostNetwork.
    CHECK(job_of({"--nnodes=4"}, {"node17", "2", hosts}) == remedy);
    CHECK(
        job_of({"--nnodes=2"}) ==
        "JOB_COMPLETION_INDEX: '2': accepted are 0 to 1 with --nnodes=2, which is the number of "
        "the job's completions");
    // Another program's variable of this name.
    for (const auto* text : {"x", "-1", ""})
        CHECK_MESSAGE(
            job_of({"--nnodes=4"}, {"bert-2", text, hosts}).find("needs --rdzv-endpoint") !=
                std::string::npos,
            text);
}
