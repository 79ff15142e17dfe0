// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/screens.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher::ctl;
using namespace std::chrono_literals;

namespace {

FoundAgent a_running() {
    control::NodeView view;
    view.run_id = "llama7b";
    view.incarnation = "1a2b";
    view.state = "running";
    view.host = "node2";
    view.endpoint = "node1:29400";
    view.program = "train.py";
    view.nodes = {4, 8, 0};
    view.worker_count = 8;
    view.assignment.emplace();
    view.assignment->round = 3;
    view.assignment->restart_count = 1;
    view.assignment->group_rank = 1;
    view.assignment->group_world_size = 8;
    view.assignment->rank_base = 8;
    view.assignment->world_size = 64;
    view.max_restarts = 3;
    view.since = 2h + 13min;
    view.age = 50h;
    return {{"ddprunctl/1/1000/4711", 4711}, 1000, view};
}

FoundAgent a_joining() {
    control::NodeView view;
    view.run_id = "ablate\x1B[31m";
    view.state = "joining";
    view.reason = "1 of 2 nodes joined";
    view.host = "node2";
    view.nodes = {2, 2, 0};
    view.since = 12s;
    view.age = 12s;
    return {{"ddprunctl/1/1000/5120", 5120}, 1000, view};
}

FoundAgent a_silent() {
    return {{"ddprunctl/1/1000/6000", 6000}, 1000, std::nullopt, "no answer"};
}

const JobPage page{R"({"version": "0.1.0", "jobs": [{
    "run_id": "llama7b", "incarnation": "1a2b", "state": "running", "reason": "restart 1 of 3",
    "round": 3, "restarts": {"used": 1, "max": 3}, "world_size": 64, "node_count": 2,
    "nodes": [
      {"host": "node1", "nonce": "1a2b3c4d", "group_rank": 0, "pid": 40, "state": "running",
       "ranks": [0, 7], "heard_ago_s": 0.4,
       "progress": [{"rank": 0, "step": 12, "phase": "eval"}]},
      {"host": "node2\u001b[2J", "pid": 4711, "state": "silent", "ranks": null,
       "heard_ago_s": 61.5, "progress": []}],
    "root_cause": null,
    "drained_hosts": [{"host": "node5", "reason": "drained by ddprunctl"}, 7],
    "store_wait": {"key": "a/b", "ranks": "0-6", "missing": "7"}}]})"};

}  // namespace

TEST_CASE("a time is short") {
    CHECK(short_time(0s) == "0s");
    CHECK(short_time(-1s) == "0s");
    CHECK(short_time(59'900ms) == "59s");
    CHECK(short_time(60s) == "1m");
    CHECK(short_time(250s) == "4m10s");
    CHECK(short_time(2h + 13min + 5s) == "2h13m");
    CHECK(short_time(76h) == "3d4h");
}

TEST_CASE("the list has a line for each ddprun, and a frozen one does not hide the others") {
    CHECK(
        list_text({a_running(), a_joining(), a_silent()}, 1000) ==
        "JOB          STATE    ROUND  NODES  WORKERS  RESTARTS  SINCE  PID   HERE\n"
        "llama7b      running  3      8/8    64       1/3       2h13m  4711  ranks 8-15\n"
        "ablate?[31m  joining  -      -      -        0/0       12s    5120  1 of 2 nodes joined\n"
        "?            ?        -      -      -        -         -      6000  no answer\n");
    // A name cannot break a row or a column.
    auto forger = a_joining();
    forger.view->run_id = "x\nllama7b  running";
    forger.view->reason = "a\tb";
    auto silent = a_silent();
    silent.problem = "not understood:\nllama7b";
    CHECK(
        list_text({forger, silent}, 1000) ==
        "JOB                 STATE    ROUND  NODES  WORKERS  RESTARTS  SINCE  PID   HERE\n"
        "x llama7b  running  joining  -      -      -        0/0       12s    5120  a b\n"
        "?                   ?        -      -      -        -         -      6000  not "
        "understood: llama7b\n");
    auto wide = a_joining();
    wide.view->run_id = "\u8a13\u7df4e\u0301";
    CHECK(list_text({wide}, 1000).find("\n\u8a13\u7df4e\u0301  joining") != std::string::npos);
    // Root sees the jobs of all users.
    CHECK(list_text({a_running()}, 0).starts_with("USER  JOB      STATE"));
    CHECK(list_text({a_running()}, 0).find("\n1000  llama7b  running") != std::string::npos);
}

TEST_CASE("the list as JSON has numbers, and null for what is not known") {
    const auto list = nlohmann::json::parse(list_json({a_running(), a_joining(), a_silent()}));
    REQUIRE(list.size() == 3);
    CHECK(list[0]["run_id"] == "llama7b");
    CHECK(list[0]["round"] == 3);
    CHECK(list[0]["ranks"] == nlohmann::json{8, 15});
    CHECK(list[0]["restarts"]["used"] == 1);
    CHECK(list[0]["state_s"] == 7'980.0);
    CHECK(list[0]["nnodes"] == "4:8");
    CHECK(list[1]["run_id"] == "ablate\x1B[31m");
    CHECK(list_json({a_joining()}).find('\x1B') == std::string::npos);
    CHECK(list[1]["round"] == nullptr);
    CHECK(list[1]["ranks"] == nullptr);
    CHECK(list[1]["reason"] == "1 of 2 nodes joined");
    CHECK(list[2]["state"] == nullptr);
    CHECK(list[2]["problem"] == "no answer");
    CHECK(nlohmann::json::parse(list_json({})) == nlohmann::json::array());
}

TEST_CASE("the status of a job is what its server says") {
    CHECK(
        status_text({a_running()}, page) ==
        "job         llama7b, train.py\n"
        "server      node1:29400\n"
        "started     2d2h ago here, in this state since 2h13m\n"
        "state       running, round 3\n"
        "reason      restart 1 of 3\n"
        "world       64 workers on 2 nodes\n"
        "restarts    1 of 3\n"
        "drained     node5, drained by ddprunctl\n"
        "waits       ranks 0-6 for key a/b, missing 7\n"
        "\n"
        "HOST       NODE  ID        STATE    RANKS  PID   HEARD     PROGRESS\n"
        "node1      0     1a2b3c4d  running  0-7    40    0s ago    step 12, eval\n"
        "node2?[2J  -     -         silent   -      4711  1m1s ago\n");
    const auto json = nlohmann::json::parse(status_json({a_running()}, page));
    CHECK(json["job"]["state"] == "running");
    CHECK(json["nodes"].size() == 1);
    CHECK_FALSE(json.contains("problem"));
}

TEST_CASE("without a page of the server the status is what the node knows, and the reason") {
    const JobPage none{{}, "connect to node1:29400: Connection refused"};
    CHECK(
        status_text({a_running()}, none) ==
        "job         llama7b, train.py\n"
        "server      node1:29400\n"
        "started     2d2h ago here, in this state since 2h13m\n"
        "state       running\n"
        "round       3\n"
        "world       64 workers on 8 nodes\n"
        "server says nothing: connect to node1:29400: Connection refused\n");
    const auto json = nlohmann::json::parse(status_json({a_running()}, none));
    CHECK(json["job"] == nullptr);
    CHECK(json["problem"] == none.problem);
}

TEST_CASE("a page of another kind, or of any bytes, shows as no job") {
    for (const std::string body :
         {"", "{", "[]", "{}", "{\"jobs\": 1}", "{\"jobs\": []}", "{\"jobs\": [1]}", "\xFF\xFE"}) {
        CAPTURE(body);
        CHECK(
            status_text({a_running()}, {body}).find("its page has no such job") !=
            std::string::npos);
    }
    const auto deep = std::string(200'000, '[');
    CHECK(status_text({a_running()}, {"{\"jobs\": [{\"a\": " + deep}).size() > 0);
    // Numbers that are no valid rank.
    const JobPage large{R"({"jobs": [{"nodes": [{"ranks": [0, 99999999999]}]}]})"};
    CHECK(status_text({a_running()}, large).find("0-99999999999") != std::string::npos);
    // Fields of other types are shown as they are, or not at all.
    const JobPage odd{
        R"({"jobs": [{"state": 7, "nodes": [1, {"ranks": ["a"], "progress": [2]}]}]})"};
    CHECK(status_text({a_running()}, odd).find("state       7") != std::string::npos);
}

TEST_CASE("stacks are shown by rank, printable, with the reason where there are none") {
    const control::RankStack stack{
        2,
        4711,
        "blocked",
        "read\033 (loader.py:112)",
        "thread 4711: read(2) on /data/shard-17, state D",
        "main thread 4711\n  read (/home/me/loader.py:112)"};
    const std::vector<control::RankReport> ranks{
        {2, stack},
        {3, std::nullopt, "rank 3 has ended"},
        {4, control::RankStack{4, 4712, "busy"}}};

    CHECK(
        stacks_text(ranks) ==
        "rank 2, pid 4711: blocked at read? (loader.py:112)\n"
        "  thread 4711: read(2) on /data/shard-17, state D\n"
        "  main thread 4711\n"
        "    read (/home/me/loader.py:112)\n"
        "rank 3: rank 3 has ended\n"
        "rank 4, pid 4712: busy\n");
    CHECK(
        stacks_json({ranks[1]}) ==
        "[\n  {\n    \"rank\": 3,\n    \"pid\": null,\n    \"problem\": \"rank 3 has ended\"\n  "
        "}\n]\n");
}

TEST_CASE("native stacks stand below the worker's own, or why there are none") {
    const std::vector<control::RankReport> ranks{
        {2, control::RankStack{2, 4711, "blocked"}},
        {3, control::RankStack{3, 4712, "busy"}},
        {4, std::nullopt, "rank 4 has ended"}};
    const NativeByRank native{
        {2, {"gdb", "Thread 1\n#0  read\033 ()\n\nThread 2\n#0  poll ()\n"}},
        {3, {"", "", "gdb: ptrace: Operation not permitted."}}};
    CHECK(
        stacks_text(ranks, native) ==
        "rank 2, pid 4711: blocked\n"
        "  native stacks, by gdb:\n"
        "  Thread 1\n"
        "  #0  read? ()\n"
        "\n"
        "  Thread 2\n"
        "  #0  poll ()\n"
        "rank 3, pid 4712: busy\n"
        "  no native stacks: gdb: ptrace: Operation not permitted.\n"
        "rank 4: rank 4 has ended\n");
    const auto json = stacks_json(ranks, native);
    CHECK(json.find("\"native\": {\n      \"by\": \"gdb\"") != std::string::npos);
    CHECK(
        json.find("\"native\": {\n      \"by\": null,\n      \"problem\": \"gdb: ptrace: Operation "
                  "not permitted.\"") != std::string::npos);
}

TEST_CASE("what was done or refused is JSON on request") {
    CHECK(outcome_json(true, "yes") == "{\n  \"done\": true,\n  \"text\": \"yes\"\n}\n");
    CHECK(outcome_json(false, "no") == "{\n  \"done\": false,\n  \"reason\": \"no\"\n}\n");
}
