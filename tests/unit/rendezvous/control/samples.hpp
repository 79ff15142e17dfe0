// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/control/command.hpp"
#include "rendezvous/control/message.hpp"

#include <vector>

/// One message of every type with all its fields, and for types with optional fields one without
/// any of them. The codec's tests and the page's test walk these lists; a type without a sample
/// fails them.
namespace ddprun::control::samples {

inline Nonce a_nonce(std::uint8_t last) {
    std::array<std::uint8_t, 16> bytes{0xAB, 0xCD};
    bytes[15] = last;
    return Nonce{bytes};
}

inline WorkerFailure a_failure() {
    return {
        3,
        1,
        411,
        {WorkerEnd::Kind::killed, 11, true},
        "ValueError: \"quoted\" and \\ and \xC3\xBC",
        "line 1\nline 2\t\x01\x1F",
        true,
        "the kernel ran out of memory",
        "/logs/error.json",
        "/logs/stderr.log",
        1'769'860'805,
        WorkerFailure::FromErrorFile::message_and_details,
        {18'446'744'073'709'551'615ULL, WorkPhase::eval},
        true};
}

inline WorkerFailure a_bare_failure() {
    return {0, 0, 0, {WorkerEnd::Kind::not_executed, 2, false}, "", "", false};
}

inline Join a_join() {
    Join join;
    join.run_id = "job-1";
    join.incarnation = "7.0";
    join.node = {a_nonce(1), "node2", 4242, 4'294'967'295U, "row1/rack7"};
    join.nodes = {2, 4, 2, 2};
    join.nproc = 8;
    join.role = "trainer";
    join.node_rank = 3;
    join.addr = "10.0.0.2";
    join.socket_addr = "[fe80::1]:51234";
    join.store_port = 20'000;
    join.peer_port = 65'535;
    join.max_restarts = 5;
    join.settings.late_nodes = LateNodes::at_restart;
    join.settings.is_static = true;
    join.settings.store_access = StoreAccess::members;
    join.settings.hang_after = std::chrono::seconds{60};
    join.settings.on_hang = OnHang::restart;
    join.settings.failover = Failover::nodes;
    join.settings.recovery = Recovery::restart;
    join.settings.recovery_timeout = std::chrono::seconds{7};
    join.settings.health_timeout = std::chrono::seconds{45};
    join.settings.replacement_timeout = std::chrono::seconds{90};
    join.settings.grace = std::chrono::milliseconds{300};
    join.settings.lease = Duration{6'000'000'001};
    join.settings.restart = {
        std::chrono::seconds{1}, std::chrono::minutes{5}, std::chrono::hours{24}, {2, 137}, 3};
    join.versions = {1, 2};
    join.epoch = 18'446'744'073'709'551'615U;
    join.is_hosting = true;
    join.record = a_nonce(5);
    return join;
}

inline Assignment an_assignment() {
    Assignment assignment{
        4, 2, 1, 3, 8, 24, 0, 8, "10.0.0.1", 20'001, {{a_nonce(9), "10.0.0.3", 1234}}, 41};
    assignment.state = StateSource{3, 40};
    return assignment;
}

inline Goodput a_goodput() {
    return {
        {Duration{1},
         Duration{2},
         Duration{3},
         Duration{4},
         Duration{5},
         Duration{6},
         Duration{7},
         std::chrono::hours{1},
         Duration{9},
         Duration{10}}};
}

inline Cause a_cause() {
    return {Cause::Kind::cancelled, "SIGINT on node1", "node1", 4, 2, a_failure()};
}

inline RankStack a_stack() {
    return {
        3,
        4711,
        "blocked",
        "read_batch (loader.py:112)",
        "thread 4711: read(2) on /data/shard-17, state S (pipe_read)",
        "main thread 4711\n  read_batch (/home/me/loader.py:112)"};
}

inline std::vector<AgentMessage> agent_messages() {
    Join bare = a_join();
    bare.incarnation.reset();
    bare.node_rank.reset();
    bare.addr.clear();
    bare.versions.clear();
    bare.nodes.unit.reset();
    bare.node.topology.clear();
    return {
        a_join(),
        Resume{
            a_join(),
            "abcd",
            an_assignment(),
            2,
            NodeState::stopping,
            a_failure(),
            std::chrono::microseconds{1500},
            Cause::Kind::store_unreachable,
            3,
            a_nonce(8),
            SavePoint{2, 12, SaveState::agreed},
            SaveReport{7, 2, 11, 2, 1, 0, 1, 12, 12, 3, false},
            a_goodput(),
            std::chrono::milliseconds{2500},
            Resized{1'000'000, {2, 4, 1, 2}},
            Drained{1'000'000, {{"node5", "drained by ddprunctl"}, {"node7", ""}}},
            {{1, 41, true}, {3, std::nullopt, false}},
            true},
        Ready{7, 20'002, 4, {{0, 41, true}, {2, std::nullopt, false}}},
        Started{7, 3, true},
        Succeeded{2'147'483'647},
        Failed{7, std::chrono::microseconds{1500}, a_failure(), Cause::Kind::store_unreachable},
        Heartbeat{
            18'446'744'073'709'551'615ULL,
            StoreWait{7, "a/b", 2, std::chrono::milliseconds{31'500}, true, 3, {"10.0.0.2:4711"}},
            StoreClients{7, {{1, "[fe80::1]:4711"}}, {2, 3}, {0}},
            NodeProgress{
                7,
                {{0, {12, WorkPhase::start}}, {4095, {std::nullopt, WorkPhase::data}}, {2, {}}},
                std::chrono::milliseconds{250}},
            NodeSites{
                7,
                {{Activity::blocked,
                  "read_batch (loader.py:112)",
                  "thread 4711: read(2) on /data/shard-17",
                  std::chrono::milliseconds{61'500},
                  {0, 4095}},
                 {Activity::ended, "", "", {}, {1}}}}},
        NeighbourHeard{a_nonce(2), 7, std::chrono::milliseconds{2500}, false},
        Leave{"evicted", 15, true, std::chrono::milliseconds{2500}},
        Notice{"SIGTERM on node2", 15, std::chrono::seconds{30}, 12, true, 7},
        Notice{"", 0, Duration{}, std::nullopt, false},
        SaveReport{3, 255, 12, 4, 3, 1, 2, 13, 14, 7, true},
        SaveReport{},
        Claim{
            "job",
            {a_nonce(3),
             {4, a_nonce(4)},
             {3, {{"10.0.0.2:20002", a_nonce(4)}}, {{"10.0.0.3:20002", a_nonce(5)}}}}},
        Drain{7, {"node5", "3"}, true, "ddprunctl (user alice, pid 4711 on node2)"},
        Undrain{8, {"node5"}, "ddprunctl"},
        Resize{9, {2, 4, 1, 2}, "ddprunctl"},
        Resize{},
        WorkerAnswer{7, WorkerOrder::What::stack, {3, 3}, true, "seen", a_stack()},
        WorkerAnswer{8, WorkerOrder::What::signal, {4, 7}, false, "no worker runs"},
        WorkerAnswer{},
        Drain{},
        JobCommand{
            JobCommand::What::drain,
            "llama7b",
            {"node5", "3"},
            true,
            std::chrono::milliseconds{1500},
            "alice@login1",
            NodeRange{2, 4, 3, 2},
            10,
            RankRange{4, 7}},
        JobCommand{},
        JobCommand{JobCommand::What::stop, "llama7b"},
        JobCommand{JobCommand::What::undrain, "llama7b", {"node5"}},
        JobCommand{
            JobCommand::What::resize, "llama7b", {}, false, std::nullopt, "a", NodeRange{2, 4, 1}},
        Heartbeat{7},
        bare,
        Resume{bare, "abcd", std::nullopt, 0, NodeState::ready, std::nullopt},
        Failed{0, {}, a_bare_failure(), std::nullopt},
        NeighbourHeard{a_nonce(2), 7, std::nullopt, true},
        Leave{"evicted", 15}};
}

inline std::vector<ServerMessage> server_messages() {
    return {
        Hello{{1, 2}},
        Welcome{"abcd", std::chrono::seconds{30}, true, a_nonce(9), 7, a_nonce(5)},
        Refused{"differs", std::chrono::seconds{2}, true, true},
        Resumed{8, a_nonce(5)},
        Lost{"unknown job"},
        Resized{2, {2, 65'536, 3, 2}},
        Resized{},
        Drained{3, {{"node5", "drained by ddprunctl"}}},
        Drained{},
        Voters{
            a_nonce(3),
            {1ULL << 53U, a_nonce(4)},
            {2,
             {{"10.0.0.2:20002", a_nonce(4)}, {"[fe80::1]:20002", a_nonce(5)}},
             {{"node1:20002", a_nonce(4)}}}},
        Voters{},
        an_assignment(),
        Stop{4, "rank 3 died", a_cause(), 15, std::chrono::seconds{30}, true},
        Standby{"two nodes are missing", 2},
        Standby{"full"},
        HeartbeatAck{5, 7, a_goodput()},
        Ask{a_nonce(3), 7, true},
        SaveAt{3, {2, 18'014'398'509'481'982ULL, SaveState::agreed}, std::chrono::seconds{12}},
        SaveAt{3, {2, 12, SaveState::cancelled}},
        SaveAt{3, {2, 12, SaveState::saved}},
        SaveAt{3, {2, 12, SaveState::ending}},
        NoticeOver{"4 of 4 ranks saved step 12"},
        DrainAnswer{7, true, "node5 leaves"},
        DrainOrder{"drained by ddprunctl"},
        WorkerOrder{
            18'446'744'073'709'551'615ULL, 7, WorkerOrder::What::signal, 10, {4, 7}, "ddprunctl"},
        WorkerOrder{8, 7, WorkerOrder::What::stack, 0, {3, 3}},
        RankReport{3, a_stack(), "in part"},
        RankReport{3, std::nullopt, "rank 3 has ended"},
        HangFound{7, "the job hangs", {"rank 2  blocked", "next  report only"}, {2}},
        HangFound{},
        JobResult{
            Outcome::failed,
            a_cause(),
            255,
            {{5, 1, 77, {WorkerEnd::Kind::exited, 1, false}, "node3"}},
            a_goodput()},
        JobCommandAnswer{
            JobCommandAnswer::Outcome::done,
            "it stops",
            {{"llama7b",
              "1a2b3c4d",
              "running",
              "2 of 2 nodes",
              3,
              "2:4",
              2,
              16,
              1,
              3,
              "rank 3 died",
              {{"node5", "1a2b3c4d", 4711, "running", 1, 8, 15, std::chrono::milliseconds{1500}}},
              {{"node7", "drained by ddprunctl"}}}},
            5},
        JobCommandAnswer{
            JobCommandAnswer::Outcome::done,
            "",
            {{}, {"b", "", "forming", "", -1, "", 1, 0, 0, 0, ""}}},
        JobCommandAnswer{JobCommandAnswer::Outcome::not_possible, "the job is over"},
        JobCommandAnswer{JobCommandAnswer::Outcome::not_allowed, "no secret"},
        JobCommandAnswer{JobCommandAnswer::Outcome::no_such_job, "no job 'x'"},
        JobCommandAnswer{JobCommandAnswer::Outcome::not_answered, "one agent has not answered"},
        ProtocolError{"what?"},
        HeartbeatAck{5},
        Refused{"never", std::nullopt},
        Welcome{"abcd", {}, false},
        JobResult{Outcome::succeeded, std::nullopt, 0}};
}

inline std::vector<Command> commands() {
    return {
        ShowNode{},
        StopJob{std::chrono::milliseconds{1500}},
        SignalWorkers{64, 4, 2'147'483'647},
        ShowStack{3},
        DrainNodes{{"node5", "3"}, true},
        UndrainNodes{{"node5"}},
        ResizeJob{{2, 4, 1, 2}},
        StopJob{},
        DrainNodes{{"1a2b3c4d"}},
        SignalWorkers{1}};
}

inline std::vector<CommandReply> command_replies() {
    NodeView view;
    view.run_id = "job-1";
    view.incarnation = "7.0";
    view.state = "running";
    view.reason = "two nodes are missing";
    view.host = "node2";
    view.pid = 4242;
    view.endpoint = "node1:29400";
    view.page_token = std::string(64, 'a');
    view.is_connected = true;
    view.program = "train.py";
    view.nodes = {2, 4, 2, 2};
    view.worker_count = 8;
    view.assignment = an_assignment();
    view.max_restarts = 3;
    view.since = std::chrono::milliseconds{1500};
    view.age = std::chrono::hours{2};
    NodeView bare;
    bare.state = "joining";
    return {
        view,
        a_stack(),
        CommandDone{"its workers have 30 s to end"},
        CommandRefused{CommandRefused::Why::not_allowed, "of another user"},
        RankStack{0, 1, "unknown"},
        bare};
}

}  // namespace ddprun::control::samples
