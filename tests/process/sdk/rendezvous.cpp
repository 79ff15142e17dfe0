// SPDX-License-Identifier: Apache-2.0
// Rendezvous of ranks without a launcher.
#include "tests/process/support/free_port.hpp"
#include "tests/process/support/running.hpp"
#include "tests/process/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

using namespace ddprun::test;

namespace {

using Variables = std::map<std::string, std::string>;

Running life(std::vector<std::string> arguments, Variables variables = {}) {
    Running::Options options;
    options.arguments = std::move(arguments);
    variables.emplace("PATH", "/usr/bin:/bin");
    for (const char* kept : {"TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS"})
        if (const char* value = ::getenv(kept)) variables.emplace(kept, value);
    options.environment = std::move(variables);
    options.has_clean_environment = true;
    return Running(stub("worker_life"), options);
}

Running join(const std::string& url, Variables variables = {}, int timeout_s = 60) {
    return life({"join", url, std::to_string(timeout_s)}, std::move(variables));
}

std::string numbered(const std::string& url, int rank, int size) {
    return url + "?rank=" + std::to_string(rank) + "&world_size=" + std::to_string(size);
}

void check_all_join(std::vector<Running>& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const int code = ranks[rank].wait_for_code();
        CAPTURE(ranks[rank].err());
        CHECK(code == 0);
        CHECK(
            ranks[rank].out() ==
            "rank " + std::to_string(rank) + " of " + std::to_string(ranks.size()) + " joined\n");
    }
}

std::string localhost(int port) {
    return "tcp://localhost:" + std::to_string(port);
}

}  // namespace

TEST_CASE("worker: ranks join at a tcp address, in any order") {
    const auto url = localhost(free_port());
    std::vector<Running> ranks;
    ranks.push_back(join(numbered(url, 0, 3)));
    ranks.push_back(join(numbered(url, 1, 3)));
    ranks.push_back(join(numbered(url, 2, 3)));
    check_all_join(ranks);
}

TEST_CASE("worker: ranks join by a file in a shared folder, which is removed at the end") {
    const TempDir folder;
    const auto url = "file://" + folder.path().string();
    std::vector<Running> ranks;
    for (const int rank : {0, 1, 2})
        ranks.push_back(join(numbered(url, rank, 3)));
    check_all_join(ranks);
    CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("worker: ranks numbered by mpirun or srun join by a file") {
    const TempDir folder;
    const auto url = "file://" + (folder / "here").string();
    std::vector<Running> ranks;
    ranks.push_back(join(url, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}));
    ranks.push_back(join(url, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}));
    check_all_join(ranks);
}

TEST_CASE("worker: ranks join by the environment where no launcher serves the store") {
    const auto port = std::to_string(free_port());
    const Variables common{
        {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
    std::vector<Running> ranks;
    for (const char* rank : {"0", "1"}) {
        auto variables = common;
        variables["RANK"] = rank;
        ranks.push_back(join("env://", variables));
    }
    check_all_join(ranks);
}

TEST_CASE("worker: the rendezvous file of a killed run is ignored") {
    const TempDir folder;
    const auto url = "file://" + folder.path().string();
    auto earlier = join(numbered(url, 0, 2), {{"STAY", "1"}});
    earlier.wait_for_line("joined");
    earlier.signal(SIGKILL);
    earlier.wait_for_code();
    REQUIRE_FALSE(std::filesystem::is_empty(folder.path()));

    // The rank that might read the old file starts first.
    std::vector<Running> ranks;
    auto second = join(numbered(url, 1, 2));
    ranks.push_back(join(numbered(url, 0, 2)));
    ranks.push_back(std::move(second));
    check_all_join(ranks);
    CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("worker: a run whose store still answers is not mistaken for this one") {
    const TempDir folder;
    const auto url = "file://" + folder.path().string();
    auto first = join(numbered(url, 0, 2), {{"STAY", "1"}});
    first.wait_for_line("joined");
    auto second = join(numbered(url, 1, 2), {{"STAY", "1"}});
    second.wait_for_line("joined");

    auto another_first = join(numbered(url, 0, 2), {}, 1);
    auto another_second = join(numbered(url, 1, 2), {}, 1);

    CHECK(another_first.wait_for_code() == 4);
    CHECK(another_first.err().find("another job uses it") != std::string::npos);
    CHECK(another_second.wait_for_code() == 4);
    CHECK(another_second.err().find("another process is rank 1") != std::string::npos);
}

TEST_CASE("worker: a rank that waits for the last run to end joins the next one") {
    const TempDir folder;
    const auto url = "file://" + folder.path().string();
    auto first = join(numbered(url, 0, 2), {{"STAY", "1"}});
    auto second = join(numbered(url, 1, 2), {{"STAY", "1"}});
    first.wait_for_line("joined");
    second.wait_for_line("joined");

    std::vector<Running> ranks;
    auto next_second = join(numbered(url, 1, 2));
    ranks.push_back(join(numbered(url, 0, 2)));
    ranks.push_back(std::move(next_second));
    first.signal(SIGKILL);
    second.signal(SIGKILL);

    check_all_join(ranks);
}

TEST_CASE("worker: ranks that leave the store join it again, however soon") {
    const TempDir folder;
    for (const auto& url : {localhost(free_port()), "file://" + folder.path().string()}) {
        std::vector<Running> ranks;
        for (const int rank : {0, 1, 2})
            ranks.push_back(life({"join-again", numbered(url, rank, 3), "100"}));
        for (auto& rank : ranks) {
            const int code = rank.wait_for_code();
            CAPTURE(rank.err());
            CHECK(code == 0);
            CHECK(rank.out() == "over\n");
        }
    }
    CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("worker: an invalid init method is an error with its reason") {
    struct Row {
        std::string url;
        Variables variables;
        std::string complaint;
    };
    const TempDir folder;
    const auto foreign = folder.write("notes", "not ours\n");
    const Row rows[] = {
        {"tcp://a:1", {}, "world_size is neither in it nor in the environment"},
        {"tcp://a", {}, "a host and a port are needed"},
        {"udp://a:1", {}, "unknown kind"},
        {"file://relative", {}, "the path must be absolute"},
        {"tcp://a:1?rang=1", {}, "unknown setting \"rang\""},
        {"file://" + foreign + "?rank=0&world_size=2", {}, "it exists and is no rendezvous file"},
        {"file:///no/such/folder/x?rank=0&world_size=2", {}, "cannot be written: No such file"},
        {"env://",
         {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
         "MASTER_ADDR is not set, although OMPI_COMM_WORLD_RANK is"},
        {"file://" + folder.path().string() + "?rank=2&world_size=2",
         {},
         "rank=2: expected a number from 0 to 1"},
    };
    for (const auto& row : rows) {
        auto rank = join(row.url, row.variables, 1);
        CHECK(rank.wait_for_code() == 4);
        CHECK_MESSAGE(
            rank.err().find(row.complaint) != std::string::npos, row.url, " said ", rank.err());
    }
}

TEST_CASE("worker: a port that another program has is an error of rank 0, not a foreign store") {
    const auto url = localhost(free_port());
    auto first = join(numbered(url, 0, 1), {{"STAY", "1"}});
    first.wait_for_line("joined");

    auto other = join(numbered(url, 0, 1));

    CHECK(other.wait_for_code() == 4);
    CHECK(other.err().find("choose another port") != std::string::npos);
}

TEST_CASE("worker: ranks with different world sizes are an error that names both") {
    const auto url = localhost(free_port());
    auto first = join(numbered(url, 0, 2), {{"STAY", "1"}});
    auto second = join(numbered(url, 1, 3));

    CHECK(second.wait_for_code() == 4);
    CHECK(second.err().find("has world size 3, rank 0") != std::string::npos);
}
