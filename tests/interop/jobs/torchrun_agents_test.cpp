// SPDX-License-Identifier: Apache-2.0
// Stock torchrun agents whose rendezvous is in the store of our daemon. Their workers are shells,
// so that only the agents import PyTorch.
#include "tests/interop/jobs/daemon.hpp"
#include "tests/interop/jobs/torch_environment.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace ddprun::test;

namespace {

/// Agents of several jobs over one daemon, and workers that end when they are asked to.
class Jobs {
public:
    explicit Jobs(std::filesystem::path environment) : environment_(std::move(environment)) {
        worker_ = dir_.write_script(
            "worker",
            "#!/bin/sh\n"
            "mkfifo \"$1/$$\"\n"
            "echo \"worker rank=$RANK world=$WORLD_SIZE pid=$$\"\n"
            "read code <\"$1/$$\"\n"
            "exit \"$code\"\n");
    }

    /// One agent of an elastic job. No agent shares its own store with the workers: with that, in
    /// 2.13 a node that joins later waits for ever for its address, whichever server is used.
    Running start_elastic_agent(const std::string& job) const {
        auto options = agent(job, "1:2");
        options.environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1";
        return Running{torchrun(), options};
    }
    Running start_agent(const std::string& job) const {
        return Running{torchrun(), agent(job, "1")};
    }

    void end_worker(int pid, int code) const {
        std::ofstream{dir_ / std::to_string(pid)} << code << "\n";
    }

    Daemon daemon;

private:
    std::string torchrun() const { return (environment_ / "bin" / "torchrun").string(); }

    Running::Options agent(const std::string& job, const std::string& nodes) const {
        auto options = activated(
            environment_,
            {"--nnodes=" + nodes,
             "--nproc-per-node=1",
             "--max-restarts=1",
             "--rdzv-backend=c10d",
             "--rdzv-id=" + job,
             "--rdzv-endpoint=" + daemon.endpoint(),
             // Agents query the store once a second, and write to it at least every other second.
             "--rdzv-conf=last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=8",
             "--no-python",
             worker_,
             dir_.path().string()});
        // An agent that is killed leaves its folder of logs.
        options.environment["TMPDIR"] = dir_.path().string();
        return options;
    }

    std::filesystem::path environment_;
    TempDir dir_;
    std::string worker_;
};

/// A line that a worker writes when its round begins.
struct Started {
    Started(Running& agent, const std::string& world) {
        const auto line = agent.wait_for_line("worker rank=\\d world=" + world, torch_timeout);
        rank = std::stoi(line.substr(line.find("rank=") + 5));
        pid = std::stoi(line.substr(line.find("pid=") + 4));
    }

    int rank = -1;
    int pid = -1;
};

}  // namespace

TEST_CASE("stock torchrun agents have their rendezvous in our daemon's store") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    const Jobs jobs(environment);

    auto other_job = jobs.start_agent("other");
    auto first = jobs.start_elastic_agent("elastic");
    const Started alone(first, "1");
    const Started other(other_job, "1");

    // A second agent: both begin a round of two.
    auto second = jobs.start_elastic_agent("elastic");
    const Started joined(second, "2");
    const Started with_second(first, "2");
    CHECK(joined.rank + with_second.rank == 1);

    // A worker fails: both begin again.
    jobs.end_worker(joined.pid, 3);
    const Started restarted(second, "2");
    const Started with_restarted(first, "2");
    CHECK(restarted.rank + with_restarted.rank == 1);

    // An agent is killed together with its worker. Whichever server is used, the other agent
    // detects that only after its own worker has failed.
    ::kill(second.pid(), SIGKILL);
    ::kill(restarted.pid, SIGKILL);
    jobs.end_worker(with_restarted.pid, 4);
    const Started left_alone(first, "1");
    jobs.end_worker(left_alone.pid, 0);
    CHECK(first.wait_for_code(torch_timeout) == 0);

    // The other job's worker was not disturbed.
    jobs.end_worker(other.pid, 0);
    CHECK(other_job.wait_for_code(torch_timeout) == 0);
    CHECK(jobs.daemon.metric("ddprun_rejected_total") == 0);
    CHECK(jobs.daemon.metric("ddprun_store_refused_total") == 0);
    second.wait_for_exit();
}
