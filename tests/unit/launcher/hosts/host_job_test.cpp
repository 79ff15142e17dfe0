// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_job.hpp"

#include "tests/unit/launcher/a_machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using Words = std::vector<std::string>;

const std::string pbs_file = "a\na\nb\nb\n";

Result<HostJob> read(Words words, SystemInfo system = a_machine()) {
    words.emplace_back("train.py");
    const auto options = parse_options(words, system.environment);
    if (!options) return options.error();
    system.read_file = [](const std::string& path) {
        return path == "pbs" ? std::optional{pbs_file} : std::nullopt;
    };
    return read_host_job(*options, system);
}

HostJob job_of(const Words& words, const SystemInfo& system = a_machine()) {
    auto job = read(words, system);
    if (job) return *job;
    FAIL(job.error().context);
    return {};
}

std::string refusal(const Words& words) {
    const auto job = read(words);
    return job ? "accepted" : job.error().context;
}

Words numbers_of_workers(const HostJob& job) {
    Words numbers;
    for (const auto& place : job.places)
        numbers.push_back(place.nproc);
    return numbers;
}

bool has(const Words& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("hosts form whole units, and are ordered by their switches if asked for") {
    CHECK(
        refusal({"--hosts=a,b,c", "--node-unit=2"}) ==
        "--node-unit: '2': no multiple of it is in 3 (the number of hosts); accepted there are 1, "
        "3");
    const auto job = job_of({"--hosts=a,b,c,d,e", "--nnodes=2:5", "--node-unit=2"});
    CHECK(job.nodes == control::NodeRange{2, 4, 1, 2});
    auto words = node_arguments(job, 1, 1, 5, "a");
    CHECK(has(words, "--nnodes=2:4+1"));
    CHECK(has(words, "--node-unit=2"));
    words = node_arguments(job_of({"--hosts=a,b", "--topology=env:RACK"}), 1, 1, 2, "a");
    CHECK(has(words, "--topology=env:RACK"));
    CHECK_FALSE(has(words, "--node-rank=1"));
    CHECK(
        refusal({"--hosts=a,b", "--topology=slurm"}) ==
        "--topology: 'slurm': with hosts no node is in a Slurm step; accepted are file:PATH and "
        "env:NAME");
}

TEST_CASE("a number in --hosts counts before -n, and -n before the number in a file") {
    CHECK(numbers_of_workers(job_of({"--hosts=a,b:4"})) == Words{"", "4"});
    CHECK(numbers_of_workers(job_of({"--hosts=a,b:4", "-n2"})) == Words{"2", "4"});
    CHECK(numbers_of_workers(job_of({"--hosts=a,b", "-n", "gpu"})) == Words{"gpu", "gpu"});
    CHECK(numbers_of_workers(job_of({"--hostfile=pbs"})) == Words{"2", "2"});
    CHECK(numbers_of_workers(job_of({"--hostfile=pbs", "-n8"})) == Words{"8", "8"});
}

TEST_CASE("this machine is known by its name and its addresses, and needs no ssh") {
    auto system = a_machine();
    system.host_name = "node7.cluster";
    system.interfaces = {{"eth0", "10.0.0.7"}};
    const auto places =
        job_of({"--hosts=node7,node7.cluster,10.0.0.7,node70,me@node7,10.0.0.8"}, system).places;
    std::vector<bool> here;
    for (const auto& place : places)
        here.push_back(place.is_here);
    CHECK(here == std::vector<bool>{true, true, true, false, false, false});
}

TEST_CASE("the nodes of a fixed job have places, an endpoint of their own, and wait for no other") {
    const auto job =
        job_of({"--hosts=a,b:4", "--rdzv-id=bert", "--rdzv-conf=join_timeout=5", "-t3"});
    const auto first = node_arguments(job, 0, 0, 2, "10.0.0.1");
    const auto port = std::to_string(job.port);
    CHECK(
        first == Words{
                     "--nnodes=2",
                     "--rdzv-backend=c10d",
                     "--node-rank=0",
                     "--rdzv-endpoint=10.0.0.1:" + port,
                     "--replacement-timeout=0",
                     "--rdzv-conf=join_timeout=5,is_host=true",
                     "--rdzv-id=bert",
                     "--tee=3",
                     "--",
                     "train.py"});
    CHECK(job.port >= 30'000);
    CHECK(job.port < 32'700);
    const auto second = node_arguments(job, 1, 1, 2, "10.0.0.1");
    CHECK(has(second, "--rdzv-conf=join_timeout=5,is_host=false"));
    CHECK(has(second, "--nproc-per-node=4"));
    CHECK(has(second, "--node-rank=1"));
}

TEST_CASE("one host is a job of one node without an endpoint") {
    CHECK(
        node_arguments(job_of({"--hosts=a:2"}), 0, 0, 1, "a") ==
        Words{"--nproc-per-node=2", "--", "train.py"});
}

TEST_CASE("a range of nodes keeps its range, and waits for others") {
    const auto job = job_of({"--hosts=a,b,c", "--nnodes=1:2+1"});
    CHECK(job.is_elastic());
    const auto words = node_arguments(job, 2, 1, 2, "a");
    CHECK(has(words, "--nnodes=1:2+1"));
    CHECK_FALSE(has(words, "--replacement-timeout=0"));
    // A spare can take any place.
    CHECK_FALSE(has(words, "--node-rank=1"));
}

TEST_CASE("an endpoint that is given is used as it is") {
    const auto words = node_arguments(
        job_of({"--hosts=localhost,b", "--rdzv-endpoint=s:1"}), 0, 0, 2, "localhost");
    CHECK(has(words, "--rdzv-endpoint=s:1"));
    for (const auto& word : words)
        CHECK(word.find("is_host") == std::string::npos);
}

TEST_CASE("the port is one of --port-range") {
    const auto job = job_of({"--hosts=a,b", "--port-range=500-501"});
    CHECK((job.port == 500 || job.port == 501));
}

TEST_CASE("what the list of hosts says already is refused beside it") {
    CHECK(
        refusal({"--hosts=a", "--hostfile=pbs"}) ==
        "--hosts: 'a': give this or --hostfile, not both");
    CHECK(refusal({"--hostfile=none"}) == "--hostfile: 'none': the file cannot be read");
    CHECK(refusal({"--hosts=a:x"}) == "--hosts: 'a:x': accepted are 1 to 4096 workers");
    CHECK(refusal({"--hosts=a", "--standalone"}).starts_with("--standalone: '1': with hosts: "));
    CHECK(refusal({"--hosts=a", "--node-rank=0"}).starts_with("--node-rank: '0': with hosts: the"));
    CHECK(refusal({"--hosts=a", "--attach=0"}).starts_with("--attach: '0': with hosts: "));
    CHECK(
        refusal({"--hosts=a,b", "--nnodes=3"}) ==
        "--nnodes: '3': 2 hosts are named; leave the option out, or name as many hosts");
    CHECK(refusal({"--hosts=a,b,c", "--nnodes=1:2"}).starts_with("--nnodes: '1:2': 3 hosts are"));
    CHECK(
        refusal({"--hosts=a", "--connect-timeout=0"}) ==
        "--connect-timeout: '0': accepted are seconds, or a number with ms, s, m, h or d, above 0");
    CHECK(refusal({"--hosts=localhost,b"})
              .starts_with("--hosts: 'localhost': the other hosts cannot reach the first one"));
}

TEST_CASE("no host gets a command line with what must not be on one") {
    const auto reason = refusal({"--hosts=a,b", "--rdzv-conf=etcd_password=planted"});
    CHECK(reason.starts_with("--rdzv-conf: etcd_password: every user of the machine can read"));
    CHECK(reason.find("planted") == std::string::npos);
}

TEST_CASE("how the others reach the first host is what the settings of ssh name") {
    CHECK(address_of("me@gpu1", "user me\nhostname 10.0.0.5\nport 22\n") == "10.0.0.5");
    CHECK(address_of("me@gpu1", "") == "gpu1");
}

TEST_CASE("a name with a domain may be another machine's where the own one has none") {
    auto system = a_machine();
    system.host_name = "node7";
    const auto places = job_of({"--hosts=node7,node7.other-site.org"}, system).places;
    CHECK(places[0].is_here);
    CHECK_FALSE(places[1].is_here);
}

TEST_CASE("ssh asks nothing and forwards nothing, whatever the settings for terminals say") {
    const auto words = ssh_arguments("me@a", std::chrono::milliseconds{2500}, "");
    CHECK(Words(words.end() - 4, words.end()) == Words{"--", "me@a", "sh", "-s"});
    for (const auto* word :
         {"-T", "-x", "-a", "BatchMode=yes", "ConnectTimeout=3", "ClearAllForwardings=yes"})
        CHECK(has(words, word));
    // OpenSSH before 8.7 would fail at these options.
    const Words newer{"StdinNull=no", "ForkAfterAuthentication=no", "SessionType=default"};
    const auto with_newer =
        ssh_arguments("a", std::chrono::seconds{1}, "user x\nsessiontype default\n");
    for (const auto& word : newer) {
        CHECK_FALSE(has(words, word));
        CHECK(has(with_newer, word));
    }
}

TEST_CASE("the command of each host can be shown before anything is started") {
    const auto text = explain_hosts(job_of({"--hosts=a,b"}));
    CHECK(text.find("a (ssh):\n  ddprun --nnodes=2 ") != std::string::npos);
    CHECK(text.find("--node-rank=1") != std::string::npos);
}
