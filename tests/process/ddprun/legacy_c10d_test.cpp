// SPDX-License-Identifier: Apache-2.0
// ddprun's stores with a worker that uses the protocol of PyTorch 2.1.
#include "tests/process/ddprun/job.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::test;

namespace {

/// Prints the answer to ADD, or that the store has closed.
const std::string add_by_old_numbers =
    "exec python3 -S -c '\n"
    "import os, socket\n"
    "store = socket.create_connection((os.environ[\"MASTER_ADDR\"], "
    "int(os.environ[\"MASTER_PORT\"])))\n"
    "store.sendall(b\"\\x03\\x05\" + bytes(7) + b\"init/\" + b\"\\x01\" + bytes(7))\n"
    "try: answer = store.recv(8)\n"
    "except ConnectionResetError: answer = b\"\"\n"
    "print(\"sum\", answer[0] if answer else \"refused\")\n'";

std::string printed_by(Running job) {
    CHECK_MESSAGE(job.wait_for_code() == 0, job.err());
    return job.out();
}

}  // namespace

TEST_CASE("workers with PyTorch 2.1 have their store with --legacy-c10d only") {
    const TempDir dir;
    const Words option{"--legacy-c10d"};
    CHECK(contains(printed_by(one_node(dir, option, add_by_old_numbers)), "sum 1\n"));
    CHECK(contains(printed_by(one_node(dir, {}, add_by_old_numbers)), "sum refused\n"));
}

TEST_CASE("so have they where the rendezvous' own store is theirs") {
    const TempDir dir;
    const Words fixed{"--rdzv-backend=static", "--master-port=" + std::to_string(free_port())};
    const Words option{"--legacy-c10d"};
    CHECK(contains(printed_by(start_job(dir, fixed + option, add_by_old_numbers)), "sum 1\n"));
    CHECK(contains(printed_by(start_job(dir, fixed, add_by_old_numbers)), "sum refused\n"));
}
