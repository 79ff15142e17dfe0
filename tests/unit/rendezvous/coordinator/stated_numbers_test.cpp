// SPDX-License-Identifier: Apache-2.0
// How much memory one message can make the server hold, and for how long: not as much as the
// message states.
#include "rendezvous/base/limits.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <malloc.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

using namespace std::chrono_literals;

constexpr Duration ten_years = std::chrono::hours{24 * 365 * 10};
constexpr int most_nodes = limits::max_nodes_per_job;

void lasts_ten_years(control::Join& join) {
    join.settings.lease = ten_years;
    join.settings.join_timeout = ten_years;
    join.settings.grace = ten_years;
}

void is_behind_proxy(control::Join& join) {
    join.socket_addr = "192.168.0.1:1";
}

/// A resume by a member of the largest possible round, with the longest possible lease.
control::Resume of_giant_round(const control::Join& join) {
    control::Resume resume;
    resume.join = join;
    resume.join.nodes = {1, most_nodes, 0};
    resume.incarnation = "1";
    resume.state = NodeState::running;
    auto& assignment = resume.assignment.emplace();
    assignment.group_world_size = most_nodes;
    assignment.world_size = most_nodes;
    assignment.role_world_size = most_nodes;
    assignment.group_rank = most_nodes - 1;
    assignment.rank_base = most_nodes - 1;
    assignment.role_rank_base = most_nodes - 1;
    assignment.master_addr = "10.0.0.1";
    assignment.master_port = 20'000;
    return resume;
}

std::size_t job_count(Story& story) {
    return story.coordinator().status(Instant{}).size();
}

std::size_t held_bytes() {
    return ::mallinfo2().uordblks;
}

/// Other mallocs than the C library's (AddressSanitizer's) do not report numbers there.
bool can_count_held_bytes() {
    const auto before = held_bytes();
    const auto block = std::make_unique<std::string>(32 * 1024, 'x');
    return held_bytes() >= before + block->size();
}

/// Sends one message on a separate connection. Returns the answer, and the reason if it is refused.
std::string say_once(
    Story& story, std::uint64_t connection, std::string network, control::AgentMessage message) {
    const ConnectionId id{connection};
    story.post(
        Coordinator::Connected{id, "10.0.0.9", "10.0.0.9:1", "10.0.0.1", std::move(network)});
    story.output();
    story.post(Coordinator::Received{id, std::move(message)});
    std::string refusal;
    for (const auto& line : story.output())
        if (line.find("refused") != std::string::npos || line.find("lost") != std::string::npos ||
            line.find("closed") != std::string::npos)
            refusal += line + "\n";
    return refusal;
}

}  // namespace

TEST_CASE(
    "what a recovering job holds does not depend on the size that its round is stated to have") {
    const bool can_count = can_count_held_bytes();
    if (!can_count)
        MESSAGE("SKIP the bytes that a recovering job holds: this malloc does not count them");
    Story story{"2", 3, lasts_ten_years};
    story.join("warm up");
    const auto before = held_bytes();

    say_once(story, 90, "n", of_giant_round(story.join_of("x", [](control::Join& join) {
                 join.run_id = "giant";
             })));

    CHECK(job_count(story) == 2);
    if (can_count) CHECK(held_bytes() < before + 64 * 1024);
    CHECK(
        story.status().reason.find(
            "1 of 65536 of round 0 are back, waiting for group ranks 0, 1, 2, "
            "3, 4, 5, 6, 7 and 65527 more") != std::string::npos);
}

TEST_CASE("a lease lasts a day at most, whatever a node states") {
    Story story{"2", 3, lasts_ten_years};
    story.join("a");
    CHECK(story.output().front() == "a welcome incarnation=61000000 lease=86400s");
}

TEST_CASE("a job that was only reported is not kept for the time that it states") {
    Story story{"2", 3, lasts_ten_years};
    SUBCASE("as a member of a round") {
        say_once(story, 90, "n", of_giant_round(story.join_of("x")));
    }
    SUBCASE("as a node that is ready, whose job starts another incarnation") {
        auto resume = of_giant_round(story.join_of("x"));
        resume.state = NodeState::ready;
        resume.assignment->group_world_size = 1;
        resume.assignment->group_rank = 0;
        resume.assignment->world_size = resume.assignment->role_world_size = 1;
        resume.assignment->rank_base = resume.assignment->role_rank_base = 0;
        say_once(story, 90, "n", resume);
    }
    CHECK(job_count(story) == 1);

    story.post(Coordinator::Disconnected{{90}});
    story.pass(limits::deserted_job_memory);

    CHECK(job_count(story) == 0);
    CHECK_FALSE(story.coordinator().next_deadline());
    CHECK(story.coordinator().is_idle());
}

TEST_CASE("a node that is said to be behind a proxy keeps no job that has begun no round") {
    Story story{"2", 3, lasts_ten_years};
    story.join("a", is_behind_proxy);
    story.drop("a");

    story.pass(limits::deserted_job_memory - 1s);
    CHECK(job_count(story) == 1);
    story.pass(1s);
    CHECK(job_count(story) == 0);
}

TEST_CASE(
    "a job whose last node is gone waits an hour for others, not for the time that it states") {
    Story story{"1", 3, lasts_ten_years};
    story.run("a");
    story.drop("a");

    story.pass(limits::deserted_job_memory);
    CHECK(job_count(story) == 1);
    story.pass(1s);
    CHECK(job_count(story) == 0);
}

TEST_CASE("a job that is over is forgotten an hour later at most") {
    Story story{"1", 3, lasts_ten_years};
    story.run("a");
    story.succeeded("a");
    story.drop("a");

    story.pass(limits::deserted_job_memory - 1s);
    CHECK(job_count(story) == 1);
    story.pass(1s);
    CHECK(job_count(story) == 0);
}

TEST_CASE("a round that was taken up is kept for the lease of its nodes, while it runs") {
    Story story{"2", 3, [](control::Join& join) { join.settings.lease = 2h; }};
    const auto come_back = [&](const std::string& node) {
        story.resume(node, NodeState::running, [](control::Resume& resume) {
            is_behind_proxy(resume.join);
        });
    };
    story.run("a b");
    story.restart_server();
    come_back("a");
    come_back("b");
    REQUIRE(story.status().state == "running");
    story.drop("a");
    story.drop("b");

    story.pass(limits::deserted_job_memory + 1s);
    REQUIRE(job_count(story) == 1);
    CHECK(story.status().state == "running");
    story.pass(2h - limits::deserted_job_memory - 2s);
    CHECK(job_count(story) == 1);
    story.pass(1s);
    CHECK(job_count(story) == 0);
}

TEST_CASE("a node that comes back to a recovering job in time finds what was reported before") {
    Story story{"2"};
    story.run("a b");
    story.restart_server();
    story.resume("a", NodeState::running);
    story.drop("a");
    story.pass(limits::unproven_job_memory - 1s);

    story.resume("b", NodeState::running);
    story.resume("a", NodeState::running);
    CHECK(story.status().state == "running");
    story.pass(60s, "a b");
    CHECK(story.status().state == "running");
}

TEST_CASE("one network has a tenth of a server's jobs at most, by join and by resume") {
    Story story{"2"};
    std::uint64_t connection = 100;
    const auto begin = [&](const std::string& network, bool by_resume) {
        const auto number = std::to_string(++connection);
        auto join = story.join_of("x", [&](control::Join& each) { each.run_id = "job " + number; });
        return by_resume ? say_once(story, connection, network, of_giant_round(join))
                         : say_once(story, connection, network, join);
    };
    std::string refusals;
    for (std::size_t i = 0; i < limits::max_jobs_per_network; ++i)
        refusals += begin("10.0.0.9", i % 2 == 0);
    CHECK(refusals.empty());

    CHECK(begin("10.0.0.9", false).find("1000 jobs from 10.0.0.9") != std::string::npos);
    // Its workers keep running: it is not lost, and retries.
    const auto come_back = begin("10.0.0.9", true);
    CHECK(come_back.find("closed: this server has 1000 jobs from 10.0.0.9") != std::string::npos);
    CHECK(come_back.find("lost") == std::string::npos);
    CHECK(begin("10.0.0.8", false).empty());

    // A forgotten job makes room for another one.
    story.post(Coordinator::Disconnected{{101}});
    story.pass(limits::default_lease);
    CHECK(begin("10.0.0.9", true).empty());
}

TEST_CASE("a round whose numbers cannot be is not taken up") {
    const auto lost = [](auto change) {
        Story story{"2"};
        auto resume = of_giant_round(story.join_of("x"));
        change(*resume.assignment);
        return !say_once(story, 90, "n", resume).empty();
    };
    CHECK_FALSE(lost([](auto&) {}));
    CHECK(lost([](auto& stated) { stated.group_rank = stated.group_world_size; }));
    CHECK(lost([](auto& stated) { stated.rank_base = 2'147'483'647; }));
    CHECK(lost([](auto& stated) { stated.rank_base = stated.world_size = 2'147'483'647; }));
    CHECK(lost([](auto& stated) { stated.role_rank_base = 2'147'483'647; }));
    CHECK(lost([](auto& stated) { stated.round = limits::last_round + 1; }));
}

TEST_CASE("a page of many jobs is made a few jobs at a time, in order, and complete") {
    Story story{"2"};
    for (std::uint64_t i = 1; i <= 50; ++i) {
        auto join = story.join_of("x", [&](control::Join& each) {
            each.run_id = "job " + std::to_string(i % 40);
            each.node.nonce = nonce_of("x" + std::to_string(i));
        });
        say_once(story, 100 + i, "n", join);
    }
    const auto read = [&](const std::string& run_id) {
        std::vector<std::string> ids;
        std::uint64_t last = 0;
        do {
            const auto turn = story.coordinator().status_turn(
                Instant{}, {Scope::everything(), run_id, 0, last, 7});
            CHECK(turn.jobs.size() <= 7);
            for (const auto& job : turn.jobs)
                ids.push_back(job.run_id);
            last = turn.last;
        } while (last != 0);
        return ids;
    };
    CHECK(read("").size() == 40);
    CHECK(read("").front() == "job 1");
    CHECK(read("job 39") == std::vector<std::string>{"job 39"});
    CHECK(read("none").empty());
}

TEST_CASE("pages show no nonce by which a program could pass for a member") {
    Story story{"2"};
    story.run("a b");
    const auto status = story.status();
    CHECK(status.incarnation == nonce_of("a").to_short_string());
    CHECK(status.nodes.at(0).nonce == nonce_of("a").to_short_string());

    Story named{"2", 3, [](control::Join& join) { join.incarnation = "slurm-7"; }};
    named.run("a b");
    CHECK(named.status().incarnation == "slurm-7");
}

TEST_CASE("the text of a worker that failed goes to the nodes of its job only") {
    Story story{"2", 0};
    story.run("a b");
    story.failed_with("a", 0, 1ms, [](control::WorkerFailure& failure) {
        failure.message = "KeyError: password=hunter2";
        failure.details = "Traceback: private";
    });
    story.ready("a b");
    CHECK(story.whole_result("b").root_cause->worker->details == "Traceback: private");
    CHECK(story.status().root_cause == "rank 0 on a: KeyError: password=[redacted]");

    // A member comes back for the result; another node that knows the job's name gets only a part
    // of it.
    story.drop("b");
    story.resume("b", NodeState::ready);
    CHECK(story.whole_result("b").root_cause->worker->details == "Traceback: private");
    story.resume("x", NodeState::ready);
    const auto& answer = story.whole_result("x");
    CHECK(answer.exit_code == 7);
    CHECK(answer.root_cause->reason == "rank 0 on a: KeyError: password=[redacted]");
    CHECK(answer.root_cause->worker->details.empty());
    CHECK(answer.root_cause->worker->message.empty());
}
