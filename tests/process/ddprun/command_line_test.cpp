// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <iostream>

using namespace ddprun::test;

namespace {

/// The words that bash would offer for this line, whose last word is being typed.
std::string offered(const Words& typed) {
    std::string words;
    for (const auto& word : typed)
        words += " '" + word + "'";
    Running bash{
        "/bin/bash",
        {"-c",
         "source <('" + program("ddprun") + "' --print-completion bash); COMP_WORDS=(ddprun" +
             words + "); COMP_CWORD=" + std::to_string(typed.size()) +
             "; _ddprun; echo \"${COMPREPLY[*]}\""}};
    CHECK(bash.wait_for_code() == 0);
    return bash.out();
}

Running ddprun_with(const Words& arguments, const std::map<std::string, std::string>& more) {
    return Running{program("ddprun"), Running::Options{arguments, more, false, "", "", false, {}}};
}

}  // namespace

TEST_CASE("bash completes options and their values, and leaves the script's words alone") {
    const TempDir dir;
    CHECK(offered({"--nproc"}) == "--nproc-per-node\n");
    CHECK(offered({"--report-format", "j"}) == "json\n");
    CHECK(offered({"--report-format", "=", "t"}) == "text torchrun\n");
    CHECK(offered({"-m", "--max-restarts", "3", "--stand"}) == "--standalone\n");
    CHECK(offered({"script-of-mine", "--nproc"}) == "\n");
    CHECK(offered({"--", "--nproc"}) == "\n");
}

TEST_CASE("tcsh reads its completion and has a rule for each value, and for options and files") {
    const std::string tcsh = "/usr/bin/tcsh";
    if (::access(tcsh.c_str(), X_OK) != 0) return skip_even_as_root("no tcsh");
    const TempDir dir;
    const auto script = (dir.path() / "ddprun.tcsh").string();
    Running job{
        tcsh,
        {"-f",
         "-c",
         "'" + program("ddprun") + "' --print-completion tcsh > '" + script + "'; source '" +
             script + "'; complete ddprun"}};
    CHECK(job.wait_for_code() == 0);
    CHECK(job.err().empty());
    for (const auto* rule :
         {"'c/--rdzv-backend=/(c10d static etcd k8s)/'", "'n/--python/f/'", "'c/--/(", "'p/*/f/'"})
        CHECK(contains(job.out(), rule));
}

TEST_CASE("an unknown shell is named with those that are known, with 2") {
    Running job{program("ddprun"), {"--print-completion", "ksh"}};
    CHECK(job.wait_for_code() == 2);
    CHECK(contains(job.err(), "--print-completion: 'ksh': accepted are bash, zsh, fish and tcsh"));
}

TEST_CASE("a compiled program runs without a word that it is one") {
    Running good{program("ddprun"), {"--standalone", "--nproc-per-node=2", "/bin/true"}};
    CHECK(good.wait_for_code() == 0);
    Running bad{program("ddprun"), {"--standalone", "/bin/false"}};
    CHECK(bad.wait_for_code() == 1);
    CHECK(contains(bad.err(), "exited with code 1"));
    CHECK_FALSE(contains(bad.err(), "SyntaxError"));
}

TEST_CASE("an explanation says which role this process takes and starts nothing") {
    Running job{
        program("ddprun"),
        {"--explain",
         "--nnodes=2",
         "--master-addr=127.0.0.1",
         "--node-rank=1",
         "--no-python",
         "true"}};
    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.out(), "another node serves: node rank 0 serves, with static rendezvous"));
    CHECK(contains(job.out(), "static"));
}

TEST_CASE("a list of machines that cannot be read is refused, with 2") {
    Running job{program("ddprun"), {"--hosts", "a,b:x", "train.py"}};
    CHECK(job.wait_for_code() == 2);
    CHECK(contains(job.err(), "--hosts: 'b:x': accepted are 1 to 4096 workers"));
}

TEST_CASE("a look at the network says what is wrong and what to do, and starts nothing") {
    const Rendezvous nowhere;
    const auto look = [&](const Words& options) {
        Running job{
            program("ddprun"),
            Words{"--explain=network", "--nnodes=2"} + options + Words{"--no-python", "true"}};
        const int code = job.wait_for_code();
        return std::pair{code, job.out()};
    };
    const auto [failed, unreached] = look(nowhere.options({"--rdzv-conf=is_host=false"}));
    CHECK(failed == 1);
    CHECK(contains(unreached, "BAD  reach"));
    CHECK(contains(unreached, nowhere.endpoint + ": Connection refused"));
    CHECK(contains(unreached, "-> start the first node first"));

    const auto served = look(nowhere.options({"--rdzv-conf=is_host=true"})).second;
    CHECK(contains(served, "ok   listen"));

    Running daemon{
        program("ddprun-rendezvous"),
        {"--host=127.0.0.1", "--port=" + nowhere.endpoint.substr(nowhere.endpoint.find(':') + 1)}};
    daemon.wait_for_line("rendezvous.listening");
    const auto reached = look(nowhere.options({"--rdzv-conf=is_host=false"})).second;
    CHECK(contains(reached, "ok   reach"));
    CHECK(contains(reached, "ok   clock there"));
    CHECK(contains(reached, "ok   interface"));
    const auto taken = look(nowhere.options({"--rdzv-conf=is_host=true"}));
    CHECK(taken.first == 1);
    CHECK(contains(taken.second, "BAD  listen"));
}

TEST_CASE("mpirun's short count, arguments with ranks, and variables of a batch system") {
    const TempDir dir;
    const auto script = dir.write_script("worker", "#!/bin/sh\necho \"$@\"\n");
    auto job = ddprun_with(
        {"-np", "2", script, "--out=${rank}-$local_rank", "-np", "--nnodes=9"},
        {{"PET_NO_PYTHON", "1"}, {"PET_NPROC_PER_NODE", "5"}});
    CHECK(job.wait_for_code() == 0);
    CHECK(sorted_lines(job.out()) == Words{"--out=0-0 -np --nnodes=9", "--out=1-1 -np --nnodes=9"});
}

TEST_CASE("each worker with a virtual local rank sees its own GPU as the first") {
    const TempDir dir;
    const auto script =
        dir.write_script("worker", "#!/bin/sh\necho $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES\n");
    auto job = ddprun_with(
        {"--nproc-per-node=2", "--virtual-local-rank", "--no-python", script},
        {{"CUDA_VISIBLE_DEVICES", "5,3"}});
    CHECK(job.wait_for_code() == 0);
    CHECK(sorted_lines(job.out()) == Words{"0 0 5", "1 0 3"});
}

TEST_CASE("behind a link ddprun runs with the Python of the environment that holds it") {
    const TempDir dir;
    std::filesystem::create_directories(dir / "venv/bin");
    std::filesystem::create_directories(dir / "home");
    std::filesystem::copy_file(program("ddprun"), dir / "venv/bin/ddprun");
    dir.write("venv/pyvenv.cfg", "");
    const auto python = dir.write_script("venv/bin/python", "#!/bin/sh\necho ran by $0 with $*\n");
    std::filesystem::create_symlink("../venv/bin/ddprun", dir / "home/ddprun");

    Running job{
        (dir / "home/ddprun").string(),
        Running::Options{
            {"-m", "train"},
            {{"VIRTUAL_ENV", ""}, {"CONDA_PREFIX", ""}, {"PYTHON_EXEC", ""}},
            false,
            "",
            "",
            false,
            {}}};

    CHECK(job.wait_for_code() == 0);
    CHECK(job.out() == "ran by " + python + " with -u -m train\n");
}

TEST_CASE("a module that is not there is reported with the Python that was asked, and why") {
    Running job{program("ddprun"), {"--python=python3", "-m", "no_such_module"}};

    CHECK(job.wait_for_code() == 1);
    CHECK(contains(job.err(), "python3 (--python)"));
}

TEST_CASE("on ROCm, too, each worker with a virtual local rank sees its own GPU only") {
    const TempDir dir;
    const auto script = dir.write_script(
        "worker", "#!/bin/sh\necho $RANK $HIP_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES\n");
    auto job = ddprun_with(
        {"--nproc-per-node=2", "--virtual-local-rank", "--no-python", script},
        {{"HIP_VISIBLE_DEVICES", "5,3"}, {"CUDA_VISIBLE_DEVICES", "0,1"}});
    CHECK(job.wait_for_code() == 0);
    CHECK(sorted_lines(job.out()) == Words{"0 5 5", "1 3 3"});
}

TEST_CASE("a range of ports holds for every port that a job opens") {
    const TempDir dir;
    // The rendezvous, two stores and the probe port; no other program is known to use these.
    const int first = free_port();
    const auto range = std::to_string(first) + "-" + std::to_string(first + 400);
    auto job =
        one_node(dir, {"--port-range=" + range, "--log-level=info"}, "echo master $MASTER_PORT");
    const int served = job.wait_for_number("rendezvous.listening port=");
    const int master = job.wait_for_number("master ");
    CHECK(job.wait_for_code() == 0);
    for (const int port : {served, master}) {
        CHECK(port >= first);
        CHECK(port <= first + 400);
    }
}

TEST_CASE("GPUs are counted by nvidia-smi where the driver has no folder") {
    if (std::filesystem::exists("/proc/driver/nvidia/gpus")) {
        std::cout << "SKIP counting by nvidia-smi: this machine's driver has the folder\n";
        return;
    }
    const TempDir dir;
    dir.write_script(
        "nvidia-smi",
        "#!/bin/sh\necho 'GPU 0: A (UUID: GPU-1)'\necho '  MIG 1g'\necho 'GPU 1: B'\n");
    auto job = ddprun_with(
        {"--nproc-per-node=gpu", "--no-python", "echo", "up"},
        {{"PATH", dir.path().string() + ":/usr/bin:/bin"}});
    CHECK(job.wait_for_code() == 0);
    CHECK(job.out() == "up\nup\n");
}

TEST_CASE("output that nothing takes is named, of the launcher and of its workers") {
    Running help{"/bin/sh", {"-c", "exec '" + program("ddprun") + "' --help >/dev/full"}};
    CHECK(help.wait_for_code() == 1);
    CHECK(
        help.err() ==
        "ddprun: standard output cannot be written: No space left on device\n");

    Running job{
        "/bin/sh",
        {"-c",
         "exec '" + program("ddprun") +
             "' --standalone --log-line-prefix-template='[${rank}] ' --no-python sh -c 'echo lost' "
             ">/dev/full"}};
    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.err(), "output.not_written stream=stdout reason=\"No space left on device\""));
}
