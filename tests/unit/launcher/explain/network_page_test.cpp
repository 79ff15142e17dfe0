// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain/network_page.hpp"

#include "rendezvous/base/text.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

using namespace ddprun::launcher;

namespace {

/// A node that reaches a healthy server, on a machine without a fault.
NetworkFacts healthy() {
    NetworkFacts facts;
    facts.host_name = "n2";
    facts.endpoint = {"n1", 29400};
    facts.resolved = {"10.0.0.1"};
    facts.placement = "another node serves: n1 is no address of this machine";
    facts.first_port = 20000;
    facts.last_port = 29399;
    facts.ports_tried = facts.ports_free = 4;
    facts.reach.is_ddprun = true;
    facts.reach.clock_difference_s = 0;
    facts.address = "10.0.0.2";
    facts.interface = "eth0";
    facts.mtu = 9000;
    facts.shm_bytes = 8ULL << 30U;
    facts.shm_free_bytes = 8ULL << 30U;
    facts.file_limit = 1048576;
    facts.gpu_count = 8;
    return facts;
}

}  // namespace

TEST_CASE("a healthy machine is one screen without a bad line") {
    const auto page = network_page(healthy());
    CHECK(page.problem_count == 0);
    CHECK(
        page.text ==
        "ok   own name           n2\n"
        "ok   endpoint           n1:29400 is 10.0.0.1\n"
        "ok   placement          another node serves: n1 is no address of this machine\n"
        "ok   reach              n1:29400 answers\n"
        "ok   clock there        the same, within 2 s\n"
        "ok   own ports          20000-29399, free ones among the first\n"
        "ok   interface          eth0 (10.0.0.2), MTU 9000\n"
        "ok   /dev/shm           8192 MiB, 8192 MiB free\n"
        "ok   locked memory      unlimited\n"
        "ok   open files         1048576\n"
        "ok   GPUs               8\n");
}

TEST_CASE("each fault is a bad line with what to do") {
    struct Row {
        std::function<void(NetworkFacts&)> fault;
        std::string line;
        std::string advice;
    };
    const std::vector<Row> rows{
        {[](auto& f) { f.own_name_problem = "n2 is the name of 127.0.1.1 here"; },
         "own name",
         "/etc/hosts"},
        {[](auto& f) { f.resolved.clear(); }, "endpoint", "use the name"},
        {[](auto& f) { f.reach.connect_error = ECONNREFUSED; }, "reach", "start the first node"},
        {[](auto& f) { f.reach.is_ddprun = false; }, "reach", "another program has that port"},
        {[](auto& f) { f.reach.clock_difference_s = -300; }, "clock there", "NTP"},
        {[](auto& f) {
             f.is_serving = true;
             f.listen_error = EADDRINUSE;
             f.holder = "python3 (pid 7)";
         },
         "listen",
         "another port"},
        {[](auto& f) { f.ports_free = 0; }, "own ports", "--port-range"},
        {[](auto& f) { f.unknown_interfaces = {"GLOO_SOCKET_IFNAME=ib0"}; },
         "interface",
         "ip link"},
        {[](auto& f) { f.interface.clear(); }, "interface", "ip route get 10.0.0.1"},
        {[](auto& f) { f.mtu = 1400; }, "interface", "MTU of the path"},
        {[](auto& f) { f.shm_bytes = 64 << 20; }, "/dev/shm", "--shm-size"},
        {[](auto& f) { f.shm_free_bytes = 0; }, "/dev/shm", "--shm-size"},
        {[](auto& f) {
             f.memlock_bytes = 8 << 20;
             f.has_infiniband = true;
         },
         "locked memory",
         "ulimit -l unlimited"},
        {[](auto& f) { f.file_problem = "raise it, with ulimit -Hn"; }, "open files", "ulimit -Hn"},
    };
    for (const auto& row : rows) {
        auto facts = healthy();
        row.fault(facts);
        const auto page = network_page(facts);
        CAPTURE(page.text);
        CHECK(page.problem_count == 1);
        const auto line = page.text.find("BAD  " + row.line);
        REQUIRE(line != std::string::npos);
        const auto advice = page.text.find("-> ", line);
        CHECK(page.text.find(row.advice, advice) != std::string::npos);
        for (const auto shown : ddprun::split(page.text, '\n'))
            CHECK(shown.size() < 81);
    }
}

TEST_CASE("further endpoints and the witness have a line each") {
    using Kind = OtherPlace::Kind;
    auto facts = healthy();
    facts.others = {
        {Kind::endpoint, {"n2", 29400}, {"10.0.0.2"}, {ECONNREFUSED, false, {}}},
        {Kind::endpoint, {"n3", 29400}, {"10.0.0.3"}, {0, true, 0}},
        {Kind::witness, {"w", 7}, {"10.0.0.9"}, {0, true, 0}}};
    const auto page = network_page(facts);
    CHECK(page.problem_count == 0);
    CHECK(
        page.text.find("ok   endpoint 2         n2:29400 is 10.0.0.2, where no ddprun runs now\n"
                       "ok   endpoint 3         n3:29400 answers\n"
                       "ok   witness            w:7 answers\n") != std::string::npos);

    struct Row {
        Kind kind;
        std::vector<std::string> resolved;
        int error;
        std::string line;
        std::string advice;
    };
    const std::vector<Row> rows{
        {Kind::endpoint, {}, 0, "n9:7 has no address", "that every node resolves"},
        {Kind::endpoint, {"10.0.0.9"}, ETIMEDOUT, "n9:7: Connection timed out", "TCP port 7 pass"},
        {Kind::endpoint, {"10.0.0.9"}, 0, "n9:7 answers, but not", "another program"},
        {Kind::witness,
         {"10.0.0.9"},
         ECONNREFUSED,
         "n9:7: Connection refused",
         "start ddprun-rend"},
    };
    for (const auto& row : rows) {
        facts.others = {{row.kind, {"n9", 7}, row.resolved, {row.error, false, {}}}};
        const auto bad = network_page(facts);
        CAPTURE(bad.text);
        CHECK(bad.problem_count == 1);
        CHECK(bad.text.find(row.line) != std::string::npos);
        CHECK(bad.text.find("-> ") < bad.text.find(row.advice));
        CHECK(bad.text.find(row.advice) != std::string::npos);
    }
}

TEST_CASE("a job of one node alone has neither an endpoint nor a way to it") {
    auto facts = healthy();
    facts.endpoint = {"localhost", 0};
    facts.resolved.clear();
    const auto page = network_page(facts);
    CHECK(page.problem_count == 0);
    CHECK(page.text.find("none: a job of this node alone") != std::string::npos);
}
