// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/world/environment.hpp"

#include "ddprun/error.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace ddprun;

namespace {

using Variables = std::map<std::string, std::string>;

/// The variables of rank 5 of 8 under ddprun.
Variables launched() {
    return {
        {"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"MASTER_ADDR", "10.0.0.1"},
        {"MASTER_PORT", "20001"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"GROUP_RANK", "1"},
        {"TORCHELASTIC_RESTART_COUNT", "2"},
        {"DDPRUN_ROUND", "3"},
        {"DDPRUN_INCARNATION", "00ff"},
        {"DDPRUN_NODE_ADDR", "10.0.0.2"}};
}

World read(const Variables& variables) {
    return environment::read_world([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

std::string complaint_about(const Variables& variables) {
    try {
        read(variables);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

std::string complaint_about(const std::string& name, const std::string& value) {
    auto variables = launched();
    variables[name] = value;
    return complaint_about(variables);
}

}  // namespace

TEST_CASE("a launched worker reads all fields of its world") {
    const auto world = read(launched());

    CHECK(world.is_launched());
    CHECK(world.rank == 5);
    CHECK(world.world_size == 8);
    CHECK(world.local_rank == 1);
    CHECK(world.local_world_size == 4);
    CHECK(world.group_rank == 1);
    CHECK(world.master_addr == "10.0.0.1");
    CHECK(world.master_port == 20001);
    CHECK(world.restart_count == 2);
    CHECK(world.round == 3);
    CHECK(world.incarnation == "00ff");
    CHECK(world.node_addr == "10.0.0.2");
}

TEST_CASE("without any of the launcher's variables the world is this process") {
    const auto world = read({{"PATH", "/bin"}, {"LOCAL_RANK", "7"}});

    CHECK_FALSE(world.is_launched());
    CHECK(world.rank == 0);
    CHECK(world.world_size == 1);
    CHECK(world.local_rank == 0);
    CHECK(world.local_world_size == 1);
    CHECK(world.master_addr == "");
}

TEST_CASE("a variable that is set to nothing is not set") {
    CHECK_FALSE(read({{"RANK", ""}, {"MASTER_ADDR", ""}}).is_launched());
}

TEST_CASE("another launcher's four variables are enough") {
    const auto world = read(
        {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}});

    CHECK(world.rank == 1);
    CHECK(world.local_rank == 0);
    CHECK(world.local_world_size == 1);
    CHECK(world.round == 0);
    CHECK(world.node_addr == "");
}

TEST_CASE("a local rank without a local world size is one of at least that many") {
    const auto world = read(
        {{"RANK", "3"},
         {"WORLD_SIZE", "4"},
         {"MASTER_ADDR", "a"},
         {"MASTER_PORT", "1"},
         {"LOCAL_RANK", "3"}});

    CHECK(world.local_rank == 3);
    CHECK(world.local_world_size == 4);
}

TEST_CASE("some of the launcher's variables are a mistake that names the first missing one") {
    const std::string names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    for (const auto& name : names) {
        auto variables = launched();
        variables.erase(name);
        const auto complaint = complaint_about(variables);
        CHECK(complaint.rfind(name + " is not set, although ", 0) == 0);
        CHECK(complaint.find("ddprun --nproc-per-node=N PROGRAM") != std::string::npos);
    }
}

TEST_CASE("invalid values are refused with what is accepted") {
    struct Row {
        const char* name;
        const char* value;
        const char* complaint;
    };
    const Row rows[] = {
        {"RANK", "8", "RANK=8: expected a number from 0 to 7"},
        {"RANK", "-1", "RANK=-1: expected a number from 0 to 7"},
        {"RANK", "+1", "RANK=+1: expected a number from 0 to 7"},
        {"RANK", "1 ", "RANK=1 : expected a number from 0 to 7"},
        {"RANK", "0x1", "RANK=0x1: expected a number from 0 to 7"},
        {"RANK", "one", "RANK=one: expected a number from 0 to 7"},
        {"WORLD_SIZE", "0", "WORLD_SIZE=0: expected a number from 1 to 268435456"},
        {"WORLD_SIZE",
         "99999999999999999999",
         "WORLD_SIZE=99999999999999999999: expected a number from 1 to 268435456"},
        {"WORLD_SIZE", "5", "RANK=5: expected a number from 0 to 4"},
        {"MASTER_PORT", "0", "MASTER_PORT=0: expected a number from 1 to 65535"},
        {"MASTER_PORT", "65536", "MASTER_PORT=65536: expected a number from 1 to 65535"},
        {"LOCAL_RANK", "4", "LOCAL_WORLD_SIZE=4: expected a number from 5 to 8"},
        {"LOCAL_WORLD_SIZE", "9", "LOCAL_WORLD_SIZE=9: expected a number from 2 to 8"},
        {"GROUP_RANK", "8", "GROUP_RANK=8: expected a number from 0 to 7"},
        {"TORCHELASTIC_RESTART_COUNT",
         "x",
         "TORCHELASTIC_RESTART_COUNT=x: expected a number from 0 to 2147483647"},
        {"DDPRUN_ROUND", "-2", "DDPRUN_ROUND=-2: expected a number from 0 to 2147483647"},
        {"MASTER_ADDR", "a b", "MASTER_ADDR=?: expected printable characters without blanks"},
        {"DDPRUN_INCARNATION",
         "a\nb",
         "DDPRUN_INCARNATION=?: expected printable characters without blanks"},
    };
    for (const auto& row : rows)
        CHECK(complaint_about(row.name, row.value) == row.complaint);
    CHECK(
        complaint_about("MASTER_ADDR", std::string(256, 'a')) ==
        "MASTER_ADDR=" + std::string(64, 'a') + ": expected at most 255 characters");
}
