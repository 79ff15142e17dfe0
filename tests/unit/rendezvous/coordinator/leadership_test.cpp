// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/versions.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::coordinator;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

namespace {

constexpr Instant begin{};

/// A server inside a `ddprun`, elected or not.
struct Server {
    Coordinator coordinator{{"none", true}};
    std::vector<Effect> out;
    std::uint64_t last_connection = 0;

    void handle(Coordinator::Event event, Instant now) {
        out.clear();
        coordinator.handle(std::move(event), now, out);
    }
    void lead(std::uint64_t epoch, Instant until, Instant now, bool led_before = false) {
        handle(Coordinator::Led{epoch, until, led_before}, now);
    }
    void say(control::AgentMessage message, Instant now) {
        const ConnectionId id{++last_connection};
        handle(Connected{id, "10.0.0.2", "10.0.0.2:5000", "10.0.0.1"}, now);
        handle(Coordinator::Received{id, std::move(message)}, now);
    }
    template <class Message>
    const Message* sent() const {
        for (const auto& effect : out)
            if (const auto* send = std::get_if<Send>(&effect))
                if (const auto* message = std::get_if<Message>(&send->message)) return message;
        return nullptr;
    }
    template <class Wanted>
    const Wanted* got() const {
        for (const auto& effect : out)
            if (const auto* found = std::get_if<Wanted>(&effect)) return found;
        return nullptr;
    }
    const SteppedDown* stepped_down() const { return got<SteppedDown>(); }
};

control::Join join_of(char node, std::uint64_t epoch = 0) {
    control::Join join;
    join.run_id = "none";
    join.node.nonce = *Nonce::parse(std::string(32, node));
    join.node.host = std::string{"host-"} + node;
    join.socket_addr = "10.0.0.2:5000";
    join.nodes = {2, 2, 0};
    join.store_port = 20'000;
    join.settings.lease = 30s;
    join.settings.failover = control::Failover::nodes;
    join.epoch = epoch;
    return join;
}

control::Resume resume_of(char node, std::uint64_t epoch) {
    control::Resume resume;
    resume.join = join_of(node, epoch);
    resume.incarnation = "first";
    return resume;
}

}  // namespace

TEST_CASE("a server that was not elected yet has nodes try again") {
    Server server;
    server.say(join_of('a'), begin);
    REQUIRE(server.sent<control::Refused>());
    CHECK(server.sent<control::Refused>()->retry.has_value());
    // Closed without a message: its workers keep running.
    server.say(resume_of('a', 0), begin);
    REQUIRE(server.out.size() == 1);
    CHECK(std::holds_alternative<Close>(server.out[0]));
}

TEST_CASE("a server that does not lead names the voters, which can name the leader") {
    Server server;
    const control::Voters voters{
        *Nonce::parse(std::string(32, '1')), {}, {1, {{"10.0.0.2:7", {}}}, {}}};
    auto join = join_of('a');
    join.versions = control::own_versions();
    auto resume = resume_of('a', 0);
    resume.join.versions = join.versions;
    server.say(join, begin);
    // None are known.
    CHECK_FALSE(server.sent<control::Voters>());

    server.handle(Coordinator::VotersChanged{"none", voters}, begin);
    CHECK(server.out.empty());
    const auto is_told_first = [&] {
        const auto* send = server.out.empty() ? nullptr : std::get_if<Send>(&server.out.front());
        const auto* told = send ? std::get_if<control::Voters>(&send->message) : nullptr;
        return told != nullptr && *told == voters;
    };
    SUBCASE("to a node that joins, before it is refused") {
        server.say(join, begin);
        CHECK(is_told_first());
        REQUIRE(server.sent<control::Refused>());
        CHECK(server.sent<control::Refused>()->retry.has_value());
        CHECK(server.sent<control::Refused>()->does_not_lead);
        CHECK(server.out.size() == 3);  // it is closed after that
    }
    SUBCASE("to a node with workers, before its connection is closed") {
        server.say(resume, begin);
        CHECK(is_told_first());
        REQUIRE(server.out.size() == 2);
        CHECK(std::holds_alternative<Close>(server.out[1]));
    }
    SUBCASE("also after it has led") {
        server.lead(1, begin + 8s, begin);
        server.handle(Coordinator::Deposed{"the lease is gone"}, begin + 1s);
        server.say(join, begin + 1s);
        CHECK(is_told_first());
    }
    SUBCASE("not to a node of version 1, which knows no voters") {
        server.say(join_of('a'), begin);
        CHECK_FALSE(server.sent<control::Voters>());
        CHECK(server.sent<control::Refused>());
        server.say(resume_of('a', 0), begin);
        CHECK(server.out.size() == 1);
    }
    SUBCASE("not to nodes of other jobs, nor to commands") {
        join.run_id = "other";
        server.say(join, begin);
        CHECK_FALSE(server.sent<control::Voters>());
        server.say(control::JobCommand{control::JobCommand::What::stop, "none"}, begin);
        CHECK_FALSE(server.sent<control::Voters>());
    }
}

TEST_CASE("an elected server says its epoch, and hosts nothing that ends with it") {
    Server server;
    server.lead(3, begin + 8s, begin);
    server.say(join_of('a'), begin);
    REQUIRE(server.sent<control::Welcome>());
    CHECK(server.sent<control::Welcome>()->epoch == 3);
    CHECK_FALSE(server.sent<control::Welcome>()->hosted);
}

TEST_CASE("it acts until its right ends by its own clock, whatever comes then first") {
    Server server;
    server.lead(1, begin + 8s, begin);
    server.lead(1, begin + 11s, begin + 3s);
    server.say(join_of('a'), begin + 10s);
    REQUIRE(server.sent<control::Welcome>());
    CHECK(server.coordinator.next_deadline() <= begin + 11s);

    const ConnectionId first{1};
    SUBCASE("time") {
        server.handle(Coordinator::DeadlinePassed{}, begin + 11s);
    }
    SUBCASE("a message that was long on its way") {
        server.handle(Coordinator::Received{first, control::Heartbeat{1}}, begin + 60s);
    }
    SUBCASE("another election, too late for the jobs of the first") {
        server.lead(2, begin + 70s, begin + 60s);
    }
    SUBCASE("a confirmation that comes too late") {
        server.lead(1, begin + 70s, begin + 60s);
        const auto ended = server.out;
        server.say(join_of('b'), begin + 60s);
        CHECK(server.sent<control::Refused>());
        server.out = ended;
    }
    REQUIRE(server.stepped_down());
    CHECK(server.stepped_down()->epoch == 1);
    CHECK(server.coordinator.is_idle());
    CHECK(server.coordinator.status(begin + 60s).empty());
    CHECK(std::count_if(server.out.begin(), server.out.end(), [](const auto& effect) {
              return std::holds_alternative<Send>(effect);
          }) == 0);
}

TEST_CASE("it steps down when the election says so, once") {
    Server server;
    server.lead(1, begin + 8s, begin);
    server.handle(Coordinator::Deposed{"the lease is gone"}, begin + 1s);
    REQUIRE(server.stepped_down());
    server.handle(Coordinator::Deposed{"the lease is gone"}, begin + 1s);
    CHECK(server.out.empty());
}

TEST_CASE("a node that has followed a newer leader ends the older one") {
    Server server;
    server.lead(4, begin + 8s, begin);
    server.say(join_of('a', 4), begin);
    CHECK(server.sent<control::Welcome>());

    SUBCASE("by its resume") {
        server.say(resume_of('b', 7), begin);
    }
    SUBCASE("by its join") {
        server.say(join_of('b', 7), begin);
    }
    REQUIRE(server.stepped_down());
    CHECK(server.stepped_down()->known_epoch == 7);
    CHECK_FALSE(server.sent<control::Resumed>());
    CHECK_FALSE(server.sent<control::Welcome>());
}

TEST_CASE("nodes of another job neither end a leadership nor are taken up") {
    Server server;
    server.lead(3, begin + 60s, begin);
    auto resume = resume_of('a', 9);
    resume.join.run_id = "other";
    server.say(resume, begin);
    CHECK_FALSE(server.stepped_down());
    CHECK(server.out.size() == 1);  // closed: its workers keep running
    auto join = join_of('b', 9);
    join.run_id = "other";
    server.say(join, begin);
    CHECK_FALSE(server.stepped_down());
    REQUIRE(server.sent<control::Refused>());
    CHECK(server.sent<control::Refused>()->retry.has_value());
}

TEST_CASE("an epoch that no leader can have had ends no leadership") {
    Server server;
    server.lead(3, begin + 60s, begin);
    server.say(join_of('a', ~std::uint64_t{0}), begin);
    CHECK_FALSE(server.stepped_down());
    server.say(join_of('a', 3 + limits::max_epochs_ahead), begin);
    CHECK(server.stepped_down());
}

TEST_CASE("a leader after another one takes the job up, and begins none beside it for a lease") {
    Server server;
    server.lead(2, begin + 8s, begin, true);
    server.say(join_of('n'), begin + 1s);
    REQUIRE(server.sent<control::Refused>());
    CHECK(server.sent<control::Refused>()->retry.has_value());

    SUBCASE("its nodes come back") {
        server.say(resume_of('a', 1), begin + 2s);
        REQUIRE(server.sent<control::Resumed>());
        CHECK(server.sent<control::Resumed>()->epoch == 2);
        server.say(join_of('n'), begin + 3s);
        CHECK(server.sent<control::Welcome>());
    }
    SUBCASE("they do not") {
        server.lead(2, begin + 60s, begin + 3s);
        server.say(join_of('n'), begin + 30s);
        CHECK(server.sent<control::Welcome>());
    }
}

namespace {

/// Two nodes run a round and succeed: the second report ends the job. Returns its incarnation.
std::string run_to_success(Server& server, Instant now) {
    server.say(join_of('a'), now);
    REQUIRE(server.sent<control::Welcome>());
    auto incarnation = server.sent<control::Welcome>()->incarnation;
    server.say(join_of('b'), now);
    for (const std::uint64_t node : {1, 2}) {
        server.handle(Coordinator::Received{ConnectionId{node}, control::Started{0, 0}}, now);
    }
    for (const std::uint64_t node : {1, 2})
        server.handle(Coordinator::Received{ConnectionId{node}, control::Succeeded{0}}, now);
    return incarnation;
}

control::Resume resume_after(Server& server, char node, const std::string& incarnation) {
    auto resume = resume_of(node, server.coordinator.epoch());
    resume.incarnation = incarnation;
    resume.state = control::NodeState::succeeded;
    return resume;
}

}  // namespace

TEST_CASE("no node of an elected server hears the result before it is recorded") {
    Server server;
    server.lead(1, begin + 60s, begin);
    const auto incarnation = run_to_success(server, begin + 1s);
    REQUIRE(server.got<Record>());
    const auto record = *server.got<Record>();
    CHECK(record.epoch == 1);
    CHECK_FALSE(server.sent<control::JobResult>());
    CHECK_FALSE(server.coordinator.is_idle());
    // The next job of this id does not begin before either.
    server.say(join_of('n', 1), begin + 1s);
    REQUIRE(server.sent<control::Refused>());
    CHECK(server.sent<control::Refused>()->retry.has_value());

    SUBCASE("it is recorded: every node hears it") {
        server.handle(Coordinator::Recorded{record.number}, begin + 2s);
        CHECK(server.sent<control::JobResult>());
        CHECK(server.out.size() == 2);
    }
    SUBCASE("a member that lost its connection meanwhile comes back for it") {
        server.handle(Coordinator::Disconnected{ConnectionId{1}}, begin + 2s);
        server.say(resume_after(server, 'a', incarnation), begin + 3s);
        REQUIRE(server.sent<control::Resumed>());
        CHECK_FALSE(server.sent<control::JobResult>());
        server.handle(Coordinator::Recorded{record.number}, begin + 4s);
        CHECK(server.out.size() == 2);
    }
    SUBCASE("the leadership ends before: it reached no node") {
        server.handle(Coordinator::Deposed{"its key is gone"}, begin + 2s);
        server.handle(Coordinator::Recorded{record.number}, begin + 3s);
        CHECK(server.out.empty());
    }
}

TEST_CASE("an end that an earlier leader has recorded holds for the next one") {
    Server first;
    first.lead(1, begin + 60s, begin);
    const auto incarnation = run_to_success(first, begin + 1s);
    REQUIRE(first.got<Record>());

    Server next;
    next.handle(
        Coordinator::Led{2, begin + 90s, true, first.got<Record>()->ends, "b:1"}, begin + 20s);
    next.say(resume_after(next, 'a', incarnation), begin + 21s);
    REQUIRE(next.sent<control::Resumed>());
    CHECK(next.sent<control::Resumed>()->epoch == 2);
    REQUIRE(next.sent<control::JobResult>());
    CHECK(next.sent<control::JobResult>()->outcome == control::Outcome::succeeded);
    // It does not begin a job that recovers.
    CHECK(next.coordinator.status(begin + 21s).empty());
    // After the wait for remaining nodes another job may begin.
    next.say(join_of('n', 2), begin + 60s);
    CHECK(next.sent<control::Welcome>());
}

TEST_CASE("an elected server begins the next job of its id, and reports whether one was left") {
    Server server;
    server.lead(1, begin + 60s, begin);
    run_to_success(server, begin + 1s);
    server.handle(Coordinator::Recorded{server.got<Record>()->number}, begin + 2s);
    for (const std::uint64_t node : {1, 2})
        server.handle(Coordinator::Disconnected{ConnectionId{node}}, begin + 2s);
    REQUIRE(server.coordinator.is_idle());

    SUBCASE("none") {
        server.handle(Coordinator::Deposed{"its node leaves"}, begin + 3s);
        CHECK(server.stepped_down()->is_idle);
    }
    SUBCASE("another one") {
        server.say(join_of('n', 1), begin + 3s);
        CHECK(server.sent<control::Welcome>());
        server.handle(Coordinator::Deposed{"its node leaves"}, begin + 4s);
        CHECK_FALSE(server.stepped_down()->is_idle);
    }
}

TEST_CASE("an elected server shows its epoch and since when it leads, while it may act") {
    Server server;
    CHECK_FALSE(server.coordinator.leader(begin));
    server.handle(Coordinator::Led{3, begin + 8s, false, {}, "a:20001"}, begin);
    CHECK(server.coordinator.leader(begin + 5s) == LeaderStatus{"a:20001", 3, 5s});
    CHECK_FALSE(server.coordinator.leader(begin + 8s));
}

TEST_CASE(
    "a server that was started again at the endpoint follows the leader that claims its job") {
    const auto nonce = *Nonce::parse(std::string(32, 'e'));
    const control::VoterPlace own{"10.0.0.1:9", nonce};
    const control::Voters voters{nonce, {7, nonce}, {2, {{"10.0.0.2:9", nonce}}, {}}};
    Server server;
    server.coordinator = Coordinator{{"none", true, limits::max_nodes_per_tenant, own}};
    server.lead(1, begin + 60s, begin);
    server.say(join_of('a'), begin);
    const auto is_claimed = [&](const std::string& run_id) {
        server.say(control::Claim{run_id, voters}, begin + 1s);
        if (const auto* down = server.stepped_down()) return down->claimed == voters;
        CHECK(server.out.size() == 1);
        CHECK(server.got<Close>()->connection == ConnectionId{server.last_connection});
        return false;
    };
    SUBCASE("its nodes wait for others") {
        REQUIRE(is_claimed("none"));
        CHECK_FALSE(server.coordinator.leader(begin + 1s));
    }
    SUBCASE("another job is claimed") {
        CHECK_FALSE(is_claimed("other"));
    }
    SUBCASE("its first round has begun") {
        server.say(join_of('b'), begin);
        for (const std::uint64_t node : {1, 2})
            server.handle(
                Coordinator::Received{ConnectionId{node}, control::Ready{0, 20'000, 1}}, begin);
        CHECK(server.sent<control::Assignment>());
        CHECK_FALSE(is_claimed("none"));
    }
    SUBCASE("it has voters of its own") {
        server.handle(Coordinator::VotersChanged{"none", voters}, begin);
        CHECK_FALSE(is_claimed("none"));
    }
    SUBCASE("its nodes do not vote") {
        server.coordinator = Coordinator{{"none", true}};
        server.lead(1, begin + 60s, begin);
        CHECK_FALSE(is_claimed("none"));
    }
}

TEST_CASE("a server that waits at another endpoint names the leader that claims its job") {
    const auto nonce = *Nonce::parse(std::string(32, 'e'));
    const control::VoterPlace own{"10.0.0.1:9", nonce};
    const control::Voters voters{nonce, {7, nonce}, {2, {{"10.0.0.2:9", nonce}}, {}}};
    auto join = join_of('a');
    join.versions = control::own_versions();
    Server server;
    server.coordinator = Coordinator{{"none", true, limits::max_nodes_per_tenant, own}};
    const auto names = [&] {
        server.say(join, begin + 1s);
        return server.sent<control::Voters>() != nullptr;
    };
    const auto claim = [&](const std::string& run_id) {
        server.say(control::Claim{run_id, voters}, begin);
        CHECK(server.out.size() == 1);
        CHECK(server.got<Close>());
    };
    SUBCASE("to nodes that join") {
        claim("none");
        CHECK(names());
        CHECK(server.sent<control::Refused>()->retry.has_value());
    }
    SUBCASE("not where another job is claimed") {
        claim("other");
        CHECK_FALSE(names());
    }
    SUBCASE("the one that has claimed it last") {
        server.handle(
            Coordinator::VotersChanged{"none", {own.nonce, {9, nonce}, {1, {own}, {}}}}, begin);
        claim("none");
        CHECK(names());
        CHECK(*server.sent<control::Voters>() == voters);
    }
    SUBCASE("not where nodes do not vote") {
        server.coordinator = Coordinator{{"none", true}};
        claim("none");
        CHECK_FALSE(names());
    }
    SUBCASE("and follows the next claim, if it has begun another record meanwhile") {
        claim("none");
        const auto other = *Nonce::parse(std::string(32, 'd'));
        server.handle(Coordinator::Led{1, begin + 60s, false, {}, "b:1", other}, begin);
        server.say(control::Claim{"none", voters}, begin + 1s);
        REQUIRE(server.stepped_down());
        CHECK(server.stepped_down()->claimed == voters);
    }
}

TEST_CASE("the job of a new leader knows the voters that have elected it") {
    const auto record = *Nonce::parse(std::string(32, 'd'));
    const control::VoterPlace voter{"10.0.0.1:9", record};
    const control::VoterPlace other{"10.0.0.2:9", *Nonce::parse(std::string(32, 'e'))};
    const auto is_hosted = [&](const Nonce& lineage, bool is_recovered) {
        Server server;
        server.coordinator = Coordinator{{"none", true, limits::max_nodes_per_tenant, voter}};
        server.handle(
            Coordinator::VotersChanged{"none", {lineage, {7, record}, {2, {voter, other}, {}}}},
            begin);
        server.handle(Coordinator::Led{1, begin + 10min, false, {}, "a:1", record}, begin);
        if (is_recovered) server.say(resume_of('a', 1), begin);
        server.say(join_of('b'), begin);
        REQUIRE(server.sent<control::Welcome>());
        return server.sent<control::Welcome>()->hosted;
    };
    CHECK_FALSE(is_hosted(record, false));
    CHECK_FALSE(is_hosted(record, true));
    CHECK(is_hosted(*Nonce::parse(std::string(32, 'f')), false));
}

TEST_CASE("a server that has just begun a job turns nodes away that know another record of it") {
    const auto own = *Nonce::parse(std::string(32, 'd'));
    const auto other = *Nonce::parse(std::string(32, 'e'));
    Server server;
    const control::VoterPlace voter{"10.0.0.1:9", own};
    server.coordinator = Coordinator{{"none", true, limits::max_nodes_per_tenant, voter}};
    server.handle(Coordinator::Led{1, begin + 10min, false, {}, "a:1", own}, begin);
    const auto is_accepted = [&](char node, std::optional<Nonce> record, Instant at) {
        auto join = join_of(node);
        join.record = record;
        server.say(std::move(join), at);
        if (const auto* welcome = server.sent<control::Welcome>()) return welcome->record == own;
        REQUIRE(server.sent<control::Refused>());
        CHECK(server.sent<control::Refused>()->retry);
        // It may lead the job after all, so the node asks again here.
        CHECK_FALSE(server.sent<control::Refused>()->does_not_lead);
        return false;
    };

    SUBCASE("their voters may still elect a leader, until that one would have claimed the job") {
        CHECK_FALSE(is_accepted('a', other, begin + 5s));
        const auto terms = join_of('a').settings;
        const auto until = begin + 5s + limits::claim_wait + terms.lease + terms.grace;
        CHECK_FALSE(is_accepted('a', other, until - 1ms));
        CHECK(is_accepted('a', other, until));
    }
    SUBCASE("the wait is not begun again by another term") {
        CHECK_FALSE(is_accepted('a', other, begin));
        server.handle(Coordinator::Deposed{"its lease is gone"}, begin + 1s);
        server.handle(Coordinator::Led{2, begin + 20min, false, {}, "a:1", own}, begin + 2s);
        CHECK(is_accepted('a', other, begin + 9min));
    }
    SUBCASE("a member of a round that comes back is turned away too") {
        control::Resume resume;
        resume.join = join_of('a');
        resume.join.record = other;
        resume.incarnation = "i";
        server.say(resume, begin);
        CHECK_FALSE(server.sent<control::Resumed>());
        CHECK(server.got<Close>());
    }
    SUBCASE("nodes that know no record, or this one, are accepted") {
        CHECK(is_accepted('a', std::nullopt, begin));
        CHECK(is_accepted('b', own, begin));
    }
    SUBCASE("its first round has begun") {
        CHECK(is_accepted('a', std::nullopt, begin));
        CHECK(is_accepted('b', std::nullopt, begin));
        for (const std::uint64_t node : {1, 2})
            server.handle(
                Coordinator::Received{ConnectionId{node}, control::Ready{0, 20'000, 1}}, begin);
        REQUIRE(server.sent<control::Assignment>());
        CHECK(is_accepted('c', other, begin + 1s));
    }
    SUBCASE("it has voters of its own") {
        server.handle(Coordinator::VotersChanged{"none", {own, {7, own}, {2, {voter}, {}}}}, begin);
        CHECK(is_accepted('a', other, begin));
    }
}

TEST_CASE("a job of one node has a lease where another node may come to lead") {
    Server server;
    server.lead(1, begin + 60s, begin);
    auto join = join_of('a');
    join.nodes = {1, 1, 0};
    server.say(join, begin);
    REQUIRE(server.sent<control::Welcome>());
    CHECK(server.sent<control::Welcome>()->lease == 30s);
}
