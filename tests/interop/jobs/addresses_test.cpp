// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/jobs/torch_environment.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace ddprun::test;

namespace {

using Words = std::vector<std::string>;

const std::string all_reduce =
    "import os, torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo')\n"
    "value = torch.ones(1) * (1 + dist.get_rank())\n"
    "dist.all_reduce(value)\n"
    "print('sum', value.item(), 'over', os.environ.get('GLOO_SOCKET_IFNAME'), flush=True)\n"
    "dist.barrier()\n"
    "dist.destroy_process_group()\n";

/// A job of two nodes, each in its network, with one worker of PyTorch each.
struct TwoNodes {
    std::filesystem::path environment;
    const NetworkPair& network;
    Words options = {};
    /// The words before `ddprun`.
    Words wrapper = {};
    std::string script = all_reduce;
    std::string outs = {};
    std::string errs = {};
    std::vector<int> codes = {};

    Running start(const NetworkPair::Host& host, const std::string& endpoint, const TempDir& dir) {
        auto command = wrapper;
        command.push_back(program("ddprun"));
        for (const auto& word : Words{
                 "--nnodes=2",
                 "--rdzv-backend=c10d",
                 "--rdzv-id=two",
                 "--rdzv-endpoint=" + endpoint})
            command.push_back(word);
        command.insert(command.end(), options.begin(), options.end());
        command.push_back(dir.write("train.py", script));
        const auto first = command.front();
        command.erase(command.begin());
        auto how = activated(environment, std::move(command));
        how.network_namespace = host.name;
        return Running{first, how};
    }

    void run(const std::string& endpoint) {
        const TempDir dir;
        auto a = start(network.a(), endpoint, dir);
        auto b = start(network.b(), endpoint, dir);
        for (auto* node : {&a, &b}) {
            codes.push_back(node->wait_for_code(torch_timeout));
            outs += node->out();
            errs += node->err();
        }
        CAPTURE(outs);
        CAPTURE(errs);
        CHECK(codes == std::vector<int>{0, 0});
        CHECK(no_descendants_left());
    }
};

std::size_t count(const std::string& text, const std::string& words) {
    std::size_t number = 0;
    for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
        ++number;
    return number;
}

/// A shell command that ends with the execution of the following words.
Words after(const std::string& command) {
    return {"unshare", "--mount", "sh", "-c", command + " && exec \"$@\"", "sh"};
}

}  // namespace

TEST_CASE("hosts whose own name leads nowhere: Gloo gets the interface that reaches the others") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair network;
    const TempDir dir;
    std::string lines = "127.0.0.1 localhost";
    SUBCASE("as Debian's installer writes it") {
        lines += "\\n127.0.1.1 '$(hostname)'";
    }
    SUBCASE("not at all") {}
    const auto hosts = dir.write("hosts", "");
    TwoNodes job{environment, network};
    job.wrapper =
        after("printf '" + lines + "\\n' >" + hosts + " && mount --bind " + hosts + " /etc/hosts");

    job.run(network.a().address + ":29400");

    CHECK(count(job.outs, "sum 3.0 over " + network.a().name) == 1);
    CHECK(count(job.outs, "sum 3.0 over " + network.b().name) == 1);
    CHECK(count(job.errs, "GLOO_SOCKET_IFNAME=" + network.a().name) == 1);
    CHECK(count(job.errs, "GLOO_SOCKET_IFNAME=" + network.b().name) == 1);
}

TEST_CASE("two hosts that have IPv6 only train with Gloo") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair network(NetworkPair::Family::v6);
    TwoNodes job{environment, network};

    job.run("[" + network.a().address + "]:29400");

    CHECK(count(job.outs, "sum 3.0 over ") == 2);
}

TEST_CASE("two hosts without IPv6 train with Gloo") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair network;
    TwoNodes job{environment, network};
    SUBCASE("a kernel without it") {
        job.wrapper = {stub("refuse"), "inet6"};
    }
    SUBCASE("switched off") {
        job.wrapper = {
            "sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 && exec \"$@\"", "sh"};
    }

    job.run(network.a().address + ":29400");

    CHECK(count(job.outs, "sum 3.0 over ") == 2);
}

TEST_CASE("where few ports are open --port-range keeps to them") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
    const NetworkPair network;
    for (const auto& host : {network.a(), network.b()}) {
        Running firewall(
            "ip",
            {"netns",
             "exec",
             host.name,
             "nft",
             "add table inet f; add chain inet f in { type filter hook input priority 0; }; "
             "add rule inet f in iif != lo tcp flags syn / syn,ack tcp dport != 30000-30010 drop"});
        if (firewall.wait_for_code() != 0) return skip("no nftables: " + firewall.err());
    }
    TwoNodes job{environment, network};
    job.options = {"--port-range=30000-30010"};
    // The store, which ddprun serves; PyTorch's own listeners take any port.
    job.script =
        "import os, torch.distributed as dist\n"
        "store = dist.TCPStore(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']), "
        "is_master=False)\n"
        "rank = int(os.environ['RANK'])\n"
        "store.set(str(rank), 'there')\n"
        "print('sees', store.get(str(1 - rank)).decode(), flush=True)\n";

    job.run(network.a().address + ":30000");

    CHECK(count(job.outs, "sees there") == 2);
}
