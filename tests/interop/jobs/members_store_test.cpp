// SPDX-License-Identifier: Apache-2.0
// PyTorch over a store that is for nodes with a secret only.
#include "tests/interop/jobs/torch_environment.hpp"
#include "tests/process/support/free_port.hpp"
#include "tests/process/support/left_behind.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

using namespace ddprun::test;

namespace {

/// Creates groups, and uses the store as scripts do.
const std::string script =
    "import datetime, os, torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo')\n"
    "rank, size = dist.get_rank(), dist.get_world_size()\n"
    "value = torch.ones(1) * (1 + rank)\n"
    "dist.all_reduce(value)\n"
    "half = dist.new_group(range(0, size, 2))\n"
    "dist.barrier()\n"
    "store = dist.distributed_c10d._get_default_store()\n"
    "store.set(f'mine{rank}', 'x' * 2000000)\n"
    "sizes = [len(store.get(f'mine{other}')) for other in range(size)]\n"
    "total = store.add('total', rank)\n"
    "objects = [None] * size\n"
    "dist.all_gather_object(objects, {'rank': rank})\n"
    "try:\n"
    "    store.wait(['never'], datetime.timedelta(milliseconds=50))\n"
    "except Exception as error:\n"
    "    assert 'timeout' in str(error), error\n"
    "own = dist.TCPStore(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']),\n"
    "                    is_master=False, wait_for_workers=False)\n"
    "own.append('list', 'a')\n"
    "own.multi_set(['one', 'two'], ['1', '2'])\n"
    "assert own.multi_get(['one', 'two']) == [b'1', b'2']\n"
    "assert own.compare_set('one', '1', '1') == b'1'\n"
    "own.num_keys()\n"
    "dist.barrier()\n"
    "print('rank', rank, 'sum', value.item(), 'sizes', sum(sizes), 'at',\n"
    "      os.environ['MASTER_ADDR'], len(objects), flush=True)\n"
    "dist.destroy_process_group()\n";

}  // namespace

TEST_CASE("PyTorch's process groups and store work over the tunnel of a second agent") {
    const auto environment = torch_environment();
    if (environment.empty()) return;
    const TempDir dir;
    const auto secret = dir.write("secret", "ddprun-secret-1:" + std::string(43, 'P') + "\n");
    REQUIRE(::chmod(secret.c_str(), 0600) == 0);
    const auto endpoint = "127.0.0.1:" + std::to_string(free_port());
    const auto path = dir.write("train.py", script);
    const auto start = [&] {
        return Running{
            program("ddprun"),
            activated(
                environment,
                {"--nnodes=2",
                 "--nproc-per-node=2",
                 "--rdzv-backend=c10d",
                 "--rdzv-id=two",
                 "--rdzv-endpoint=" + endpoint,
                 "--rdzv-secret-file=" + secret,
                 path})};
    };
    auto a = start();
    auto b = start();
    const int code_a = a.wait_for_code(torch_timeout);
    const int code_b = b.wait_for_code(torch_timeout);
    CAPTURE(a.err());
    CAPTURE(b.err());
    CHECK(code_a == 0);
    CHECK(code_b == 0);
    const auto said = a.out() + b.out();
    for (int rank = 0; rank < 4; ++rank)
        CHECK(
            said.find("rank " + std::to_string(rank) + " sum 10.0 sizes 8000000 at 127.0.0.1 4") !=
            std::string::npos);
    CHECK(no_descendants_left());
}
