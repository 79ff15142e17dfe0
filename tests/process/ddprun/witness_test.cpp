// SPDX-License-Identifier: Apache-2.0
// Two nodes and a witness on a third host: when one node is lost the other one serves.
#include "tests/process/ddprun/voting_nodes.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using std::chrono::seconds;

namespace {

/// Two nodes on the first two hosts, and a `ddprun-rendezvous` on the third one.
struct WitnessedJob {
    TempDir dir;
    VotingHosts job;
    Words options;

    explicit WitnessedJob(const Words& more = {"--insecure"}) : options(short_lease) {
        options.push_back("--nnodes=2");
        options.push_back("--rdzv-witness=" + job.hosts[2].address);
        options.insert(options.end(), more.begin(), more.end());
    }

    Running start_witness(const Words& more = {"--insecure"}) const {
        Running::Options how;
        how.arguments = more;
        how.network_namespace = job.hosts[2].name;
        Running witness{program("ddprun-rendezvous"), how};
        witness.wait_for_line("rendezvous.listening");
        return witness;
    }
    Running start(std::size_t host) const {
        return job.start_on(job.hosts[host], dir, options, until_go(dir));
    }
    std::vector<Running> start_both() const {
        std::vector<Running> nodes;
        nodes.push_back(start(0));
        nodes[0].wait_for_line("rendezvous.leader_changed .*epoch=1");
        nodes.push_back(start(1));
        for (auto& node : nodes)
            node.wait_for_line("up 2 in 0");
        return nodes;
    }
    std::string voters() const {
        return "rendezvous.voters voters=\"[^ ]+ [^ ]+ witness/" + job.hosts[2].address +
               ":29400\"";
    }

    /// Nothing is left when the job has ended, and the witness after it.
    void end(Running& witness, std::vector<Running>& nodes, std::size_t first) const {
        let_end(dir, nodes, first);
        witness.signal(SIGTERM);
        CHECK(witness.wait_for_code() == 0);
        CHECK(no_descendants_left());
    }

    /// The first node is lost, and comes back to a job that the second one leads.
    void replace_first(std::vector<Running>& nodes) const {
        kill_node(nodes[0]);
        nodes[0].wait_for_exit();
        nodes[1].wait_for_line("rendezvous.leader_changed .*epoch=2", seconds{60});
        nodes.push_back(start(0));
        for (std::size_t i = 1; i < nodes.size(); ++i)
            nodes[i].wait_for_line("up 2 in [1-9]", seconds{90});
    }
};

}  // namespace

TEST_CASE("witness: of two nodes either one can serve, with the vote of a third machine") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const WitnessedJob job;
    auto witness = job.start_witness();
    auto nodes = job.start_both();
    nodes[0].wait_for_line(job.voters());
    witness.wait_for_line("rendezvous.witnessed job=tested");

    job.replace_first(nodes);

    job.end(witness, nodes, 1);
}

TEST_CASE("witness: one that is started again is another voter") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const WitnessedJob job;
    auto nodes = job.start_both();
    const std::string leader_alone = "rendezvous.voters voters=\"?[^ /]+:[0-9]+\"?$";
    nodes[0].wait_for_line(leader_alone);
    nodes[0].wait_for_line(
        "rendezvous.witness_lost .*reason=\"the connection was refused\"", seconds{30});
    {
        auto witness = job.start_witness();
        nodes[0].wait_for_line(job.voters(), seconds{30});
        witness.signal(SIGKILL);
        witness.wait_for_exit();
    }
    nodes[0].wait_for_line("rendezvous.witness_lost", seconds{30});
    nodes[0].wait_for_line(leader_alone, seconds{30});
    auto witness = job.start_witness();
    nodes[0].wait_for_line(job.voters(), seconds{30});

    job.replace_first(nodes);

    job.end(witness, nodes, 1);
}

TEST_CASE("witness: with a secret it must have the job's") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const WitnessedJob job{{"--secure"}};
    auto nodes = job.start_both();
    const auto secret_file = job.dir.path().string() + "/.config/ddprun/secret";
    {
        auto open = job.start_witness();
        nodes[0].wait_for_line(
            "rendezvous.witness_lost .*reason=\"no answer in time, or it does not have the job's",
            seconds{30});
        open.signal(SIGKILL);
        open.wait_for_exit();
    }
    auto witness = job.start_witness({"--secret-file", secret_file});
    nodes[0].wait_for_line(job.voters(), seconds{30});

    job.replace_first(nodes);

    job.end(witness, nodes, 1);
}

TEST_CASE("witness: one that requires a secret says so to a job without") {
    if (const auto reason = VotingHosts::why_not(); !reason.empty()) return skip(reason);
    const WitnessedJob job;
    const auto secret = job.dir.write("secret", "ddprun-secret-1:" + std::string(43, 'P') + "\n");
    REQUIRE(::chmod(secret.c_str(), 0600) == 0);
    auto witness = job.start_witness({"--secret-file", secret});
    auto nodes = job.start_both();
    nodes[0].wait_for_line(
        "rendezvous.witness_lost .*reason=\"it answered: this job needs --rdzv-secret-file",
        seconds{30});
    job.end(witness, nodes, 0);
}
