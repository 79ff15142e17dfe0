// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/drain_keepers.hpp"

#include "rendezvous/base/limits.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

const std::string reason = "drained by ddprunctl";

/// Drained by `a`; the node is gone, and the others are in the next round.
void drain(Story& job, const std::string& node, const std::string& others, int round = 0) {
    job.say("a", control::Drain{9, {node}, false, "ddprunctl"});
    job.say(node, control::Leave{reason, SIGTERM});
    job.ready(others + ' ' + node, round);
    job.drop(node);
    job.started(others, round + 1);
}

/// The lists that nodes were sent: "a count=1 d".
Lines lists(Story& job) {
    Lines found;
    for (const auto& line : job.output())
        if (const auto at = line.find(" drained count="); at != std::string::npos)
            found.push_back(line.substr(0, at) + line.substr(at + 8));
    std::sort(found.begin(), found.end());
    return found;
}

control::Drained list(int count, std::vector<std::string> hosts) {
    control::Drained drained{count, {}};
    for (auto& host : hosts)
        drained.hosts.push_back({std::move(host), reason});
    return drained;
}

std::string drained_hosts(const Story& job) {
    std::string text;
    for (const auto& [host, why] : job.status().drained_hosts)
        text += (text.empty() ? "" : " ") + host;
    return text;
}

/// The job under a server that was started again; `a` returns this list.
void is_taken_up(Story& job, const std::string& nodes, const control::Drained& of_a) {
    job.restart_server();
    for (const char node : nodes) {
        if (node == ' ') continue;
        job.resume(std::string{node}, NodeState::running, [&](control::Resume& resume) {
            if (node == 'a') resume.drained = of_a;
        });
    }
}

void on_host(control::Join& join, const std::string& host) {
    speaks_version_2(join);
    join.node.host = host;
}

/// Which of these nodes keep the list, by the host names of their places.
std::string keepers(std::vector<std::pair<std::string, bool>> nodes, bool is_hosted = false) {
    JobIdentity identity;
    identity.is_hosted = is_hosted;
    JobData job{identity, control::Join{}, Forming{Instant{}, {}}, Instant{}};
    job.round.emplace();
    job.round->places = Places{nodes.size()};
    std::string text;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
        Member member;
        member.join.node.host = nodes[rank].first;
        member.join.is_hosting = nodes[rank].second;
        member.join.versions = {1, 2};
        std::string digits(32, '0');
        digits.back() = static_cast<char>('0' + rank);
        member.join.node.nonce = Nonce::parse(digits).value();
        member.group_rank = static_cast<int>(rank);
        job.round->places.take(rank).nonce = member.nonce();
        job.members.add(std::move(member));
    }
    for (const auto& nonce : drain_keepers(job))
        text += nonce.to_string().back();
    return text;
}

}  // namespace

TEST_CASE("three nodes of different hosts keep the drained hosts, and none of the server's host") {
    CHECK(keepers({{"a", false}, {"b", false}, {"c", false}, {"d", false}}) == "012");
    CHECK(keepers({{"a", false}, {"a", false}, {"b", false}, {"a", false}}) == "02");
    CHECK(keepers({{"a", true}, {"b", false}, {"a", false}, {"c", false}}, true) == "13");
    // A node that says so where the server is a daemon.
    CHECK(keepers({{"a", true}, {"b", false}}) == "01");
    CHECK(keepers({{"a", true}}, true).empty());
}

TEST_CASE("the list goes to the keepers after each change, and a former keeper drops it") {
    auto job = job_of("1:5", "a b c d e");
    job.output();
    job.say("a", control::Drain{9, {"c"}, false, "ddprunctl"});
    // The node that leaves is no keeper.
    CHECK(lists(job) == Lines{"a count=1 c", "b count=1 c", "d count=1 c"});
    job.say("c", control::Leave{reason, SIGTERM});
    job.ready("a b c d e");
    job.drop("c");
    job.started("a b d e", 1);
    CHECK(lists(job) == Lines{"a count=1 c", "b count=1 c", "d count=1 c"});

    job.say("a", control::Drain{9, {"b"}, false, "ddprunctl"});
    CHECK(lists(job) == Lines{"a count=2 b c", "b count=2", "d count=2 b c", "e count=2 b c"});
    // What was missed comes with the resume.
    job.drop("d");
    job.resume(
        "d", NodeState::running, [&](control::Resume& resume) { resume.drained = list(1, {"c"}); });
    CHECK(lists(job) == Lines{"d count=2 b c"});
    job.resume("d", NodeState::running, [&](control::Resume& resume) {
        resume.drained = list(2, {"b", "c"});
    });
    CHECK(lists(job).empty());
}

TEST_CASE("a server that is started again holds the hosts that were drained, the newest list") {
    auto job = job_of("1:3", "a b c");
    job.restart_server();
    const auto back = [&](const std::string& node, std::optional<control::Drained> drained) {
        job.resume(node, NodeState::running, [&](control::Resume& resume) {
            resume.drained = std::move(drained);
        });
    };
    back("a", list(3, {"x", "y"}));
    back("b", list(2, {"z"}));
    CHECK(drained_hosts(job) == "x y");
    back("c", list(4, {"y"}));
    CHECK(drained_hosts(job) == "y");
    CHECK(lists(job) == Lines{"a count=4 y", "b count=4 y", "c count=4 y"});
    // Lists of one count are taken together.
    job.restart_server();
    back("a", list(4, {"y"}));
    back("b", list(4, {"w"}));
    back("c", std::nullopt);
    CHECK(drained_hosts(job) == "w y");
}

TEST_CASE("a drained host stays drained under the next server, and is undrained there") {
    auto job = job_of("1:3", "a b c");
    drain(job, "c", "a b");
    is_taken_up(job, "a b", list(1, {"c"}));
    CHECK(job.status().state == "running");
    job.join("e", [](control::Join& join) { on_host(join, "c"); });
    job.pass(10s, "a b e");
    CHECK(job.status().state == "running");
    CHECK(job.status().round == 1);
    const auto lines = job.output();
    CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
        return line.starts_with("e standby \"its host was " + reason);
    }));

    job.say("a", control::Undrain{9, {"c"}, "ddprunctl"});
    CHECK(lists(job) == Lines{"a count=2", "b count=2"});
    job.pass(2s, "a b e");
    job.ready("a b", 1);
    CHECK(job.status().round == 3);
    CHECK(job.status().nodes.size() == 3);
    CHECK(drained_hosts(job).empty());
}

TEST_CASE("a node of a drained host that stood by does so under the next server, too") {
    auto job = job_of("1:3", "a b c");
    drain(job, "c", "a b");
    job.join("e", [](control::Join& join) { on_host(join, "c"); });
    job.restart_server();
    job.resume("e", NodeState::ready, [](control::Resume& resume) { resume.join.node.host = "c"; });
    job.resume(
        "a", NodeState::running, [&](control::Resume& resume) { resume.drained = list(1, {"c"}); });
    job.resume("b", NodeState::running);
    const auto lines = job.output();
    CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
        return line.starts_with("e standby \"its host was " + reason);
    }));
    job.pass(10s, "a b e");
    CHECK(job.status().round == 1);
    CHECK(job.status().state == "running");
}

TEST_CASE("a count that a node states leaves room for changes") {
    auto job = job_of("1:2", "a b");
    is_taken_up(job, "a b", list(limits::max_drain_changes, {"x"}));
    CHECK(lists(job) == Lines{"a count=500000 x", "b count=500000 x"});
    job.say("a", control::Undrain{9, {"x"}, "ddprunctl"});
    CHECK(lists(job) == Lines{"a count=500001", "b count=500001"});
}
