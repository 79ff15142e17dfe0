// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/voter_roll.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include <doctest/doctest.h>

#include <signal.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using control::NodeState;

namespace {

/// "c*-/h": the node c, on the host h instead of its own, votes already, and is not connected.
VoterCandidate candidate(const std::string& text) {
    const auto slash = text.find('/');
    const auto node = text.substr(0, 1);
    return {
        {node, nonce_of(node)},
        slash == std::string::npos ? node : text.substr(slash + 1),
        text.find('*') != std::string::npos,
        text.find('-') == std::string::npos};
}

/// Which of these nodes vote with the leader.
std::string chosen(const std::string& leader, const std::string& others) {
    std::vector<VoterCandidate> candidates;
    for (const auto& word : words(others))
        candidates.push_back(candidate(word));
    std::string text;
    for (const auto& place : choose_voters(candidate(leader), candidates))
        text += (text.empty() ? "" : " ") + place.address;
    return text;
}

/// The address at which the node votes: that of the leader is the server's.
std::string address_of(const std::string& node) {
    if (node == "a") return "10.0.0.1:9";
    return Endpoint{"10.0.0." + std::to_string(static_cast<int>(node.back())), 7}.to_string();
}

std::vector<control::VoterPlace> places_of(const std::string& nodes) {
    std::vector<control::VoterPlace> found;
    for (const auto& node : words(nodes))
        found.push_back({address_of(node), nonce_of(node)});
    return found;
}

/// The record with these voters, as written in this ballot.
control::Voters record(
    std::uint64_t ballot, const std::string& voters, const std::string& former = {}) {
    return {
        nonce_of("lineage"),
        {ballot, nonce_of("a")},
        {ballot, places_of(voters), places_of(former)}};
}

/// What was requested and which nodes were notified, with the names of nodes for their addresses.
Lines output(Story& job) {
    Lines found;
    for (auto line : job.output()) {
        if (line.find(" voters ") == std::string::npos) continue;
        for (const std::string node : {"a", "b", "c", "d", "e", "f"})
            for (auto at = line.find(address_of(node)); at != std::string::npos;
                 at = line.find(address_of(node)))
                line.replace(at, address_of(node).size(), node);
        found.push_back(std::move(line));
    }
    return found;
}

Lines requested(const std::string& nodes) {
    return {"job job is to have voters " + nodes};
}

/// Each of the nodes was notified of this.
Lines notified(const std::string& nodes, const std::string& what) {
    Lines lines;
    for (const auto& node : words(nodes))
        lines.push_back(node + " voters version=" + what);
    return lines;
}

/// A round of as many nodes, whose record has these voters.
Story job_with_voters(const std::string& nodes, const std::string& voters, int spares = 0) {
    Story job{
        std::to_string(words(nodes).size()) + "+" + std::to_string(spares), 3, speaks_version_2};
    job.has_voters();
    for (const auto& node : words(nodes))
        job.join(node);
    job.started(nodes);
    CHECK(output(job) == requested(voters));
    job.voters_changed(record(1, voters));
    CHECK(output(job) == notified(nodes, "1 " + voters));
    return job;
}

}  // namespace

TEST_CASE("the leader votes, with one node of each of two or four other hosts") {
    CHECK(chosen("a", "") == "a");
    CHECK(chosen("a", "b") == "a");
    CHECK(chosen("a", "b c") == "a b c");
    CHECK(chosen("a", "b c d") == "a b c");
    CHECK(chosen("a", "b c d e") == "a b c d e");
    CHECK(chosen("a", "b c d e f g") == "a b c d e");
    CHECK(chosen("a", "b/a c d/c e") == "a c e");
    CHECK(chosen("a", "b/x c/x d/x e/x") == "a");
    // It is no member, and its host is not known.
    CHECK(chosen("a/", "b c") == "a b c");
}

namespace {

const control::VoterPlace witness{"witness/10.0.0.200:29400", nonce_of("w")};

/// The record of two nodes and the witness.
control::Voters with_witness(std::uint64_t ballot, const control::VoterPlace& third) {
    auto voters = record(ballot, "a b");
    voters.set.voters.push_back(third);
    return voters;
}

}  // namespace

TEST_CASE("with a witness two nodes vote, also when it is found after the round has begun") {
    Story job{"2", 3, speaks_version_2};
    job.has_voters();
    bool is_found_first = false;
    SUBCASE("before the round begins") {
        is_found_first = true;
    }
    SUBCASE("after it") {}
    if (is_found_first) job.witness_changed(witness);
    job.join("a");
    job.join("b");
    job.started("a b");
    if (!is_found_first) {
        CHECK(output(job) == requested("a"));
        job.voters_changed(record(1, "a"));
        output(job);
        job.witness_changed(witness);
    }
    CHECK(output(job) == requested("a b " + witness.address));
    job.voters_changed(with_witness(2, witness));
    CHECK(output(job) == notified("a b", "2 a b " + witness.address));

    // The same again, and one that was started again: it is another voter.
    job.witness_changed(witness);
    CHECK(output(job).empty());
    auto again = witness;
    again.nonce = nonce_of("v");
    job.witness_changed(again);
    CHECK(output(job) == requested("a b " + witness.address));

    // No node can replace b, which keeps its vote when its connection ends.
    job.voters_changed(with_witness(3, again));
    output(job);
    job.drop("b");
    CHECK(output(job).empty());
}

TEST_CASE("a witness that does not answer votes no more, and a request for it is replaced") {
    Story job{"2", 3, speaks_version_2};
    job.has_voters();
    job.witness_changed(witness);
    job.join("a");
    job.join("b");
    CHECK(output(job) == requested("a b " + witness.address));
    SUBCASE("before it votes") {
        job.witness_changed(std::nullopt);
        CHECK(output(job) == requested("a"));
        auto again = witness;
        again.nonce = nonce_of("v");
        job.witness_changed(again);
        // That of the leader alone is still open.
        CHECK(output(job).empty());
        job.voters_changed(record(1, "a"));
        auto expected = notified("a b", "1 a");
        expected.push_back(requested("a b " + witness.address).front());
        CHECK(output(job) == expected);
    }
    SUBCASE("where the leader alone votes, since the change may have begun") {
        job.voters_changed(record(1, "a"));
        output(job);
        job.witness_changed(std::nullopt);
        CHECK(output(job) == requested("a"));
        job.voters_changed(record(2, "a"));
        CHECK(output(job) == notified("a b", "2 a"));
    }
    SUBCASE("not in a job that is interrupted") {
        job.leave("b", SIGINT);
        output(job);
        job.witness_changed(std::nullopt);
        CHECK(output(job).empty());
    }
    SUBCASE("after the first step of the change") {
        auto joint = with_witness(1, witness);
        joint.set.former = places_of("a");
        job.voters_changed(joint);
        output(job);
        job.witness_changed(std::nullopt);
        CHECK(output(job) == requested("a"));
    }
    SUBCASE("when it votes") {
        job.voters_changed(with_witness(1, witness));
        output(job);
        job.witness_changed(std::nullopt);
        CHECK(output(job) == requested("a"));
    }
    SUBCASE("at another address it is asked there") {
        job.witness_changed(control::VoterPlace{"witness/10.9.9.9:29400", witness.nonce});
        CHECK(output(job) == requested("a b witness/10.9.9.9:29400"));
    }
}

TEST_CASE("a witness votes where the nodes alone are an even number of hosts") {
    struct Row {
        std::string nodes;
        std::string voters;
    };
    const auto w = witness.address;
    const std::vector<Row> rows{
        {"a b", "a b " + w}, {"a b c", "a b c"}, {"a b c d", "a b c d " + w}};
    for (const auto& row : rows) {
        CAPTURE(row.nodes);
        Story job{std::to_string(words(row.nodes).size()), 3, speaks_version_2};
        job.has_voters();
        job.witness_changed(witness);
        for (const auto& node : words(row.nodes))
            job.join(node);
        CHECK(output(job) == requested(row.voters));
    }
}

TEST_CASE("a witness on the host of a node is no third host") {
    for (const auto* host : {"10.0.0.1", "10.0.0.98"}) {
        CAPTURE(host);
        Story job{"2", 3, speaks_version_2};
        job.has_voters();
        job.witness_changed(
            control::VoterPlace{"witness/" + Endpoint{host, 29'400}.to_string(), nonce_of("w")});
        job.join("a");
        job.join("b");
        CHECK(output(job) == requested("a"));
    }
}

TEST_CASE("a voter stays while it is connected, or as long as no other node can replace it") {
    CHECK(chosen("a", "b c d*") == "a d b");
    CHECK(chosen("a", "b e* d*") == "a e d");
    CHECK(chosen("a", "b d*- c") == "a b c");
    CHECK(chosen("a", "b d*-") == "a b d");
    CHECK(chosen("a", "b d-") == "a");
    CHECK(chosen("a", "b* c* d* e*-") == "a b c d e");
    // The fifth is gone: of five voters two are too many.
    CHECK(chosen("a", "b* c* d*") == "a b c");
    // The leader has changed.
    CHECK(chosen("a", "b* c* d* e* f*") == "a b c d e");
}

TEST_CASE("the nodes of a job vote when its round has begun, and are notified of which do") {
    Story job{"3", 3, speaks_version_2};
    job.has_voters();
    job.join("a");
    job.join("b");
    CHECK(output(job).empty());
    job.join("c");
    CHECK(output(job) == requested("a b c"));

    job.voters_changed(record(1, "a b c", "a"));
    CHECK(output(job) == notified("a b c", "1 a b c former=a"));
    job.voters_changed(record(2, "a b c"));
    CHECK(output(job) == notified("a b c", "2 a b c"));
    job.started("a b c");
    job.failed("b");
    job.ready("a b c");
    job.started("a b c", 1);
    CHECK(output(job).empty());
}

TEST_CASE("where nodes do not vote nothing is said about voters") {
    auto job = job_of("3", "a b c");
    job.drop("b");
    job.resume("b", NodeState::running);
    CHECK(output(job).empty());
}

TEST_CASE("a node that would elect no other server does not join a job whose nodes do") {
    Story job{"3", 3, speaks_version_2};
    const auto with = [](control::Failover failover) {
        return [=](control::Join& join) { join.settings.failover = failover; };
    };
    const auto answer_to = [&](const std::string& node, control::Failover failover) {
        job.join(node, with(failover));
        return job.output().front();
    };
    SUBCASE("in a job whose nodes do, as the first one") {
        job.has_voters();
        CHECK(
            answer_to("a", control::Failover::off)
                .find("--rdzv-standby is off, or without effect, on a and auto on the node that "
                      "serves") != std::string::npos);
        CHECK(answer_to("b", control::Failover::nodes).starts_with("b welcome"));
    }
    SUBCASE("where the server's node does not, the others can") {
        CHECK(answer_to("a", control::Failover::nodes).starts_with("a welcome"));
        CHECK(answer_to("b", control::Failover::off).starts_with("b welcome"));
    }
}

TEST_CASE("a node that is welcomed or comes back is notified of the voters") {
    auto job = job_with_voters("a b c", "a b c", 2);
    job.join("d");
    CHECK(output(job) == notified("d", "1 a b c"));
    job.join("e", [](control::Join& join) { join.versions = {}; });
    CHECK(output(job).empty());
    job.drop("b");
    job.resume("b", NodeState::running);
    CHECK(output(job) == notified("b", "1 a b c"));
}

TEST_CASE("until another node votes the job is lost with its server, as a welcome says") {
    const auto welcome_of = [](Story& job, const std::string& node) {
        job.join(node);
        for (const auto& line : job.output())
            if (line.starts_with(node + " welcome")) return line;
        return std::string{};
    };
    Story job{"2:4", 3, speaks_version_2};
    job.has_voters();
    CHECK(welcome_of(job, "a").ends_with(" hosted"));
    job.join("b");
    job.join("c");
    job.started("a b c");
    job.voters_changed(record(2, "a b c"));
    job.output();
    CHECK_FALSE(welcome_of(job, "d").ends_with(" hosted"));
    job.drop("d");
    job.voters_changed(record(3, "a"));
    job.output();
    CHECK(welcome_of(job, "e").ends_with(" hosted"));
}

TEST_CASE("a voter that leaves, or loses its connection, is replaced where another node can vote") {
    auto job = job_with_voters("a b c d", "a b c");
    SUBCASE("it leaves") {
        job.leave("b", SIGTERM);
        CHECK(output(job) == requested("a c d"));
    }
    SUBCASE("its connection ends") {
        job.drop("c");
        CHECK(output(job) == requested("a b d"));
        job.voters_changed(record(2, "a b d"));
        output(job);
        job.resume("c", NodeState::running);
        CHECK(output(job) == notified("c", "2 a b d"));
        // Nothing is gained by a vote of a node that is away.
        job.drop("d");
        CHECK(output(job) == requested("a b c"));
        job.voters_changed(record(3, "a b c"));
        job.drop("c");
        output(job);
        job.resume("c", NodeState::running);
        CHECK(output(job) == notified("c", "3 a b c"));
    }
    SUBCASE("it is lost, and no other node is left for its vote") {
        job.drop("d");
        job.pass(1s, "a b c");
        job.ready("a b c");
        job.drop("c");
        CHECK(output(job).empty());
        job.pass(1s, "a b");
        CHECK(output(job) == requested("a"));
    }
}

TEST_CASE(
    "voters are changed once at a time: what is right by then is requested after the answer") {
    auto job = job_with_voters("a b c d e", "a b c d e");
    job.leave("e", SIGTERM);
    CHECK(output(job) == requested("a b c"));
    job.leave("b", SIGTERM);
    CHECK(output(job).empty());
    job.voters_changed(record(2, "a b c", "a b c d e"));
    CHECK(
        output(job) ==
        notified("a b c d e", "2 a b c former=a former=b former=c former=d former=e"));
    job.voters_changed(record(3, "a b c"));
    auto expected = notified("a b c d e", "3 a b c");
    expected.push_back(requested("a c d").front());
    CHECK(output(job) == expected);
}

TEST_CASE("nodes are notified of the same voters once, in whatever ballot they are repeated") {
    auto job = job_with_voters("a b c", "a b c");
    for (const std::uint64_t ballot : {1U, 9U}) {
        auto again = record(1, "a b c");
        again.ballot.counter = ballot;
        job.voters_changed(again);
        CHECK(output(job).empty());
    }
}

TEST_CASE("of one record the voters of an older ballot are ignored, and those of another are not") {
    auto job = job_with_voters("a b c", "a b c");
    job.voters_changed(record(0, "a"));
    CHECK(output(job).empty());
    auto other = record(0, "a");
    other.lineage = nonce_of("other");
    job.voters_changed(other);
    CHECK(
        output(job) == Lines{
                           "a voters version=0 a",
                           "b voters version=0 a",
                           "c voters version=0 a",
                           requested("a b c").front()});
}

TEST_CASE("only a node that others reach, and that is notified of voters, can vote") {
    Story job{"6", 3, speaks_version_2};
    job.has_voters();
    job.lives_at("d", "127.0.0.1", "127.0.0.1");
    job.join("a");
    job.join("b", [](control::Join& join) { join.peer_port = 0; });
    job.join("c", [](control::Join& join) { join.addr = "a\"b"; });
    job.join("d", [](control::Join& join) { join.socket_addr = "127.0.0.1:5000"; });
    job.join("e", [](control::Join& join) { join.versions = {}; });
    job.join("f", [](control::Join& join) { join.addr = "node6.example"; });
    CHECK(output(job) == requested("a"));
    job.voters_changed(record(1, "a"));
    job.output();
    // The other node on the server's machine has the server's address.
    job.resume("b", NodeState::running);
    auto expected = notified("b", "1 a");
    expected.push_back(requested("a 10.0.0.1:7 b").front());
    CHECK(output(job) == expected);
}

TEST_CASE("the leader's own node that has joined again is no voter besides the leader") {
    Story job{"3", 3, speaks_version_2};
    // The server votes under the nonce that its node had before.
    job.has_voters();
    job.lives_at("d", "127.0.0.1", "127.0.0.1");
    job.join("d", [](control::Join& join) {
        join.socket_addr = "127.0.0.1:5000";
        join.peer_port = 9;
    });
    job.join("b");
    job.join("c");
    CHECK(output(job) == requested("a b c"));
}

TEST_CASE("another server requests the voters again when it has taken the job up") {
    auto job = job_with_voters("a b c", "a b c");
    job.restart_server();
    for (const std::string node : {"a", "b"})
        job.resume(node, NodeState::running);
    CHECK(output(job).empty());
    job.resume("c", NodeState::running);
    CHECK(output(job) == requested("a b c"));
}

TEST_CASE("a job that was interrupted keeps its voters: the end of the record releases them") {
    auto job = job_with_voters("a b c d", "a b c");
    job.leave("b", SIGINT);
    CHECK(output(job).empty());
    job.drop("c");
    CHECK(output(job).empty());
}

TEST_CASE("a job that is over keeps its voters, and the next one waits for their last change") {
    auto job = job_with_voters("a b c d", "a b c");
    job.drop("c");
    CHECK(output(job) == requested("a b d"));
    job.resume("c", NodeState::running);
    job.output();
    job.succeeded("a b c d");
    CHECK(job.result("a") != "");
    for (const std::string node : {"a", "b", "c", "d"})
        job.drop(node);
    job.output();
    job.join("e");
    CHECK(job.output().front().find("e refused") == 0);
    job.voters_changed(record(2, "a b d"));
    CHECK(output(job).empty());
    job.join("e");
    CHECK(job.output().front().find("e welcome") == 0);
}
