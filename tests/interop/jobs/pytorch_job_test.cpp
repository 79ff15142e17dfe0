// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/jobs/torch_environment.hpp"
#include "tests/process/support/free_port.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace ddprun::test;

namespace {

using Words = std::vector<std::string>;

Words example(Words options) {
    options.insert(
        options.end(),
        {DDPRUN_SOURCE_DIR "/examples/pytorch/train.py", "--samples=512", "--epochs=2"});
    return options;
}

/// Rank 0's lines about the training: losses with all digits.
Words epochs(const std::string& text) {
    std::istringstream stream(text);
    Words lines;
    for (std::string line; std::getline(stream, line);)
        if (line.starts_with("epoch")) lines.push_back(line);
    return lines;
}

Words losses_under_torchrun(const std::filesystem::path& environment) {
    Running job{
        (environment / "bin" / "torchrun").string(),
        activated(environment, example({"--standalone", "--nproc_per_node=2"}))};
    REQUIRE(job.wait_for_code(torch_timeout) == 0);
    return epochs(job.out());
}

}  // namespace

TEST_CASE("an unmodified PyTorch script has the same losses as under torchrun") {
    const auto environment = torch_environment();
    if (environment.empty()) return;

    Running job{
        program("ddprun"), activated(environment, example({"--standalone", "--nproc_per_node=2"}))};
    const int code = job.wait_for_code(torch_timeout);

    CAPTURE(job.err());
    CHECK(code == 0);
    const auto losses = epochs(job.out());
    CHECK(losses.size() == 2);
    CHECK(losses == losses_under_torchrun(environment));
    CHECK(no_descendants_left());
}

TEST_CASE("two nodes in two networks train an unmodified PyTorch script to the same losses") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair network;
    const auto expected = losses_under_torchrun(environment);
    for (const std::string security : {"--insecure", "--secure"}) {
        CAPTURE(security);
        const TempDir home;
        const auto start = [&](const NetworkPair::Host& host) {
            auto options = activated(
                environment,
                example(
                    {"--nnodes=2",
                     "--rdzv-backend=c10d",
                     "--rdzv-id=two",
                     "--rdzv-endpoint=" + network.a().address + ":29400",
                     security}));
            options.environment["HOME"] = home.path().string();
            options.network_namespace = host.name;
            return Running{program("ddprun"), options};
        };

        auto a = start(network.a());
        auto b = start(network.b());
        const int code_of_a = a.wait_for_code(torch_timeout);
        const int code_of_b = b.wait_for_code(torch_timeout);

        CAPTURE(a.err());
        CAPTURE(b.err());
        CHECK(code_of_a == 0);
        CHECK(code_of_b == 0);
        const auto losses = epochs(a.out() + b.out());
        CHECK(losses.size() == 2);
        CHECK(losses == expected);
        CHECK(no_descendants_left());
    }
}

TEST_CASE("what a worker sees of itself in /proc is as under torchrun, but for a list") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    const TempDir dir;
    // Without values that differ between any two processes: numbers, memory, times.
    const auto script = dir.write(
        "look.py",
        "import os, re\n"
        "own = re.compile('(Vm|Rss|Hugetlb|.*ctxt|N?S?t?g?pid:|PPid|Tgid|Ngid|Pid|Threads)')\n"
        "for name in ('limits', 'status', 'cgroup'):\n"
        "    for line in open('/proc/self/' + name):\n"
        "        if name == 'status' and own.match(line): continue\n"
        "        line = re.sub(r'(SigQ.*)\\b\\d+/', r'\\1N/', line)\n"
        "        line = re.sub(r'(NS.*:\\t)%d\\n' % os.getpid(), r'\\1own\\n', line)\n"
        "        print('looks', name, ' '.join(line.split()))\n"
        "for number in sorted(os.listdir('/proc/self/fd'), key=int):\n"
        "    try: link = os.readlink('/proc/self/fd/' + number)\n"
        "    except OSError: continue\n"
        "    print('looks fd', number, re.sub(r'\\[.*', '', link))\n");
    const auto looks = [&](const std::string& launcher) {
        // Not a pipe, since a worker's standard error is a pipe here.
        Running job{
            "/bin/sh",
            activated(
                environment,
                {"-c", "exec \"$@\" 2>/dev/null", "sh", launcher, "--standalone", script})};
        REQUIRE(job.wait_for_code(torch_timeout) == 0);
        std::istringstream stream(job.out());
        std::set<std::string> lines;
        for (std::string line; std::getline(stream, line);)
            if (line.starts_with("looks ")) lines.insert(line.substr(6));
        return lines;
    };
    const auto theirs = looks((environment / "bin" / "torchrun").string());
    const auto ours = looks(program("ddprun"));
    std::string differences;
    for (const auto& line : theirs)
        if (!ours.contains(line)) differences += "-" + line + "\n";
    for (const auto& line : ours)
        if (!theirs.contains(line)) differences += "+" + line + "\n";

    // docs/worker-environment.md has the same list.
    CHECK(differences == "-fd 2 /dev/null\n+fd 2 pipe:\n");
}

TEST_CASE("init_process_group that times out: the report names the rank that never came") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    const TempDir dir;
    const auto script = dir.write(
        "train.py",
        "import datetime, os, signal\n"
        "if os.environ['RANK'] == '1':\n"
        "    signal.pause()\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=5))\n");

    Running job{
        program("ddprun"), activated(environment, {"--standalone", "--nproc_per_node=2", script})};
    const int code = job.wait_for_code(torch_timeout);

    const auto report = std::regex_replace(job.err(), std::regex{"\\n +"}, " ");
    CAPTURE(report);
    CHECK(code == 1);
    // PyTorch 2.13 polls for 5 s, and once more if the first poll returned just before its
    // deadline; then its wait takes 10 s.
    const std::regex why{
        " why +a wait of ([5-9]|1[0-9])(\\.[0-9])? s for the key [^ ]+ in the store timed out "
        "\\(rank 0\\); "
        "rank 1 \\([^ ]+\\) is not connected"};
    CHECK(std::regex_search(report, why));
    CHECK(no_descendants_left());
}

TEST_CASE("torchelastic reads the lines of the event file") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    const TempDir dir;
    const auto path = (dir / "events").string();
    auto options = activated(
        environment,
        {"--standalone",
         "--event-file=" + path,
         "--no-python",
         dir.write_script("fail", "#!/bin/sh\nexit 3\n")});
    Running job{program("ddprun"), options};
    REQUIRE(job.wait_for_code() == 3);

    const auto script = dir.write(
        "read.py",
        "import json, sys\n"
        "from torch.distributed.elastic.events import Event\n"
        "for line in open(sys.argv[1]):\n"
        "    event = Event.deserialize(line)\n"
        "    inner = json.loads(event.metadata['metadata'])\n"
        "    print(event.source.value, event.metadata['state'], inner.get('exit_code'))\n");
    Running reader{(environment / "bin" / "python").string(), Words{script, path}};

    CHECK(reader.wait_for_code(torch_timeout) == 0);
    CHECK(
        reader.out() ==
        "AGENT RENDEZVOUS None\nAGENT ASSIGN_WORKER_RANKS None\nWORKER START None\n"
        "WORKER FAILED 3\nAGENT FAILED None\n");
}
