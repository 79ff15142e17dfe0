// SPDX-License-Identifier: Apache-2.0
#include "ddprun/error.hpp"
#include "worker_sdk/src/world/environment.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace ddprun;

namespace {

using Variables = std::map<std::string, std::string>;

World read(const Variables& variables, const std::string& init_method = "env://") {
    return environment::read_world(
        [&](const char* name) {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
        },
        parse_init_method(init_method));
}

std::string complaint_about(const Variables& variables, const std::string& init_method) {
    try {
        read(variables, init_method);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

Variables with(Variables variables, const Variables& more) {
    variables.insert(more.begin(), more.end());
    return variables;
}

const Variables place{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};

const Variables slurm{
    {"SLURM_PROCID", "5"},
    {"SLURM_STEP_NUM_TASKS", "7"},
    {"SLURM_LOCALID", "1"},
    {"SLURM_NODEID", "2"},
    {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};

const Variables open_mpi{
    {"OMPI_COMM_WORLD_RANK", "3"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};

}  // namespace

TEST_CASE("srun numbers the ranks when no launcher does") {
    const auto world = read(with(slurm, place));

    CHECK(world.rank == 5);
    CHECK(world.world_size == 7);
    CHECK(world.local_rank == 1);
    CHECK(world.local_world_size == 2);
    CHECK(world.group_rank == 2);
    CHECK(world.master_addr == "node1");
    CHECK(world.rank_0_hosts_store);
}

TEST_CASE("mpirun numbers the ranks when no launcher does") {
    const auto world = read(with(open_mpi, place));
    CHECK(world.rank == 3);
    CHECK(world.world_size == 4);
    CHECK(world.local_rank == 1);
    CHECK(world.local_world_size == 2);

    const auto intel = read(with(
        {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}},
        place));
    CHECK(intel.rank == 1);
    CHECK(intel.local_world_size == 4);
}

TEST_CASE("the variables of a launcher that mpirun or srun started win") {
    const Variables launched{
        {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    const auto world = read(with(with(with(launched, place), slurm), open_mpi));

    CHECK(world.rank == 0);
    CHECK(world.world_size == 2);
    CHECK_FALSE(world.rank_0_hosts_store);
}

TEST_CASE("ranks without an address of the store are an error, unless there is only one") {
    const auto complaint = complaint_about(open_mpi, "env://");
    CHECK(complaint.find("MASTER_ADDR is not set, although OMPI_COMM_WORLD_RANK is") == 0);
    CHECK(complaint.find("file:///SHARED/PATH") != std::string::npos);

    CHECK_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}).is_launched());
}

TEST_CASE("a batch script of Slurm is no rank") {
    CHECK_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).is_launched());
}

TEST_CASE("an init method gives the address, and the numbers it has") {
    const auto by_address = read(open_mpi, "tcp://node7:1234");
    CHECK(by_address.rank == 3);
    CHECK(by_address.master_addr == "node7");
    CHECK(by_address.master_port == 1234);
    CHECK(by_address.rank_0_hosts_store);

    const auto by_file = read({}, "file:///shared/x?rank=1&world_size=2");
    CHECK(by_file.rank == 1);
    CHECK(by_file.is_launched());
    CHECK(by_file.store_file == "/shared/x");
    CHECK(by_file.rank_0_hosts_store);
    CHECK(by_file.master_addr == "");

    CHECK(
        complaint_about({}, "tcp://a:1?rank=1")
            .find("world_size is neither in it nor in the environment") != std::string::npos);
    CHECK(
        complaint_about({}, "tcp://a:1?rank=2&world_size=2") ==
        "rank=2: expected a number from 0 to 1");
}

TEST_CASE("the launcher's own store is found there also by its address") {
    const Variables launched{
        {"RANK", "0"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

    CHECK_FALSE(read(launched, "tcp://node1:29500").rank_0_hosts_store);
    CHECK(read(launched, "tcp://node1:29501").rank_0_hosts_store);
}

TEST_CASE("Slurm's count of tasks per node") {
    const auto on = environment::tasks_on_node;
    CHECK(on("2(x3),1", 0) == 2);
    CHECK(on("2(x3),1", 2) == 2);
    CHECK(on("2(x3),1", 3) == 1);
    CHECK(on("2(x3),1", 4) == 0);
    CHECK(on("8", 0) == 8);
    CHECK(on("8", 1) == 0);
    CHECK(on("1,2,3", 2) == 3);
    CHECK(on("", 0) == 0);
    CHECK(on("2(x", 0) == 0);
    CHECK(on("x(x2)", 0) == 0);
    CHECK(on("2(x99999999999)", 0) == 0);
}
