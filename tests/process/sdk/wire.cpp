// SPDX-License-Identifier: Apache-2.0
// The connections between hosts, in one process: bytes that peers and other programs may send.
#include "worker_sdk/src/transports/two_level_transport.hpp"
#include "worker_sdk/src/transports/wire/mesh.hpp"
#include "worker_sdk/src/transports/wire/schedule.hpp"
#include "worker_sdk/src/transports/wire/wire_transport.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace ddprun;
using namespace ddprun::groups;
using namespace std::chrono_literals;
using Kind = Collective::Kind;

namespace {

constexpr std::uint32_t tag = 77;
const std::function<void()> nothing;

/// A connection that accepts only a few bytes at a time.
struct Narrow {
    Descriptor near;
    Descriptor far;

    Narrow() {
        int both[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) == 0);
        near = Descriptor(both[0]);
        far = Descriptor(both[1]);
        constexpr int bytes = 1;  // the kernel raises it to its minimum
        for (const int socket : both)
            ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
};

/// Rank 0 of two in one exchange; the test acts as its peer.
struct Alone {
    Narrow wire;
    Exchange exchange{0, 2};
    Scratch<std::byte> scratch;
    std::vector<std::int32_t> data = std::vector<std::int32_t>(1000, 1);
    Collective call{};
    Descriptor wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::atomic<bool> is_aborted = false;
    Transfer::Polling polling{true};

    explicit Alone(Kind kind = Kind::broadcast, std::size_t count = 1000) {
        data.assign(count, 1);
        call.kind = kind;
        call.type = ElementType::int32;
        call.root = 1;
        call.sequence = 3;
        call.count = data.size();
        call.data = data.data();
        plan(call, 0, 2, scratch, exchange);
    }

    void say(const void* bytes, std::size_t size) const {
        CHECK(::send(wire.far.get(), bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size));
    }
    void say(const Header& header) const { say(&header, sizeof header); }
    std::size_t bytes() const { return data.size() * sizeof(std::int32_t); }
    Header header() const { return header_of(call, tag, bytes()); }

    Transfer::End run(std::chrono::milliseconds timeout = 1min) { return run(exchange, timeout); }
    Transfer::End run(Exchange& planned, std::chrono::milliseconds timeout = 1min) {
        return Transfer(
                   planned,
                   {0,
                    {-1, wire.near.get()},
                    call,
                    tag,
                    wake.get(),
                    is_aborted,
                    polling,
                    Transfer::Clock::now() + timeout,
                    nothing})
            .run();
    }
};

/// Rank 0 of three; the test acts as its peers.
struct AmongThree {
    Narrow to_1;
    Narrow to_2;
    Exchange exchange{0, 3};
    Scratch<std::byte> scratch;
    std::vector<std::int32_t> input;
    std::vector<std::int32_t> data;
    Collective call{};
    Descriptor wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::atomic<bool> is_aborted = false;
    Transfer::Polling polling{true};
    int calls_during_wait = 0;
    std::atomic<bool> is_over = false;

    AmongThree(Kind kind, std::size_t count) : input(3 * count), data(count) {
        call.kind = kind;
        call.type = ElementType::int32;
        call.count = count;
        call.input = input.data();
        call.data = data.data();
        plan(call, 0, 3, scratch, exchange);
    }

    /// Rank 1 sends its header and `sent` bytes, takes `taken` bytes, and ends.
    std::thread rank_1(std::size_t sent, std::size_t taken) {
        const auto header = header_of(call, tag, exchange.bytes_from(1));
        std::vector<std::byte> bytes(sizeof header + sent);
        ::memcpy(bytes.data(), &header, sizeof header);
        return std::thread([this, bytes, left = sizeof header + taken]() mutable {
            std::vector<std::byte> room(1 << 16);
            for (std::size_t at = 0; !is_over && (at < bytes.size() || left > 0);) {
                const auto piece =
                    ::send(to_1.far.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
                if (piece > 0) at += static_cast<std::size_t>(piece);
                const auto most = std::min(left, room.size());
                const auto got = most > 0 ? ::recv(to_1.far.get(), room.data(), most, 0) : 0;
                if (got > 0) left -= static_cast<std::size_t>(got);
            }
            to_1.far = Descriptor{};
        });
    }

    Transfer::End run(std::chrono::milliseconds timeout) {
        const std::function<void()> during_wait = [this] { ++calls_during_wait; };
        auto end = Transfer(
                       exchange,
                       {0,
                        {-1, to_1.near.get(), to_2.near.get()},
                        call,
                        tag,
                        wake.get(),
                        is_aborted,
                        polling,
                        Transfer::Clock::now() + timeout,
                        during_wait})
                       .run();
        is_over = true;
        return end;
    }
};

/// Limits the descriptors of this process during its life.
class FewDescriptors {
public:
    explicit FewDescriptors(rlim_t most) {
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const rlimit limit{most, before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;
    ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
};

std::string why_lost(const Transfer::End& end) {
    const auto* lost = std::get_if<Transfer::Lost>(&end);
    return lost ? lost->why : "not lost";
}

using Meshes = std::vector<std::unique_ptr<Mesh>>;

std::unique_ptr<Mesh> listening(int rank, int ranks) {
    return std::get<std::unique_ptr<Mesh>>(Mesh::open({rank, ranks, "127.0.0.1", true}));
}

std::vector<PeerAddress> addresses_of(const Meshes& meshes) {
    std::vector<PeerAddress> addresses;
    for (const auto& mesh : meshes)
        addresses.push_back(mesh->own_address());
    return addresses;
}

Meshes listening(int ranks) {
    Meshes meshes;
    for (int rank = 0; rank < ranks; ++rank)
        meshes.push_back(listening(rank, ranks));
    return meshes;
}

/// On a thread for each rank.
template <class Call>
void on_all(int ranks, Call call) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([call, rank] { call(rank); });
    for (auto& thread : threads)
        thread.join();
}

Meshes connected(int ranks) {
    auto meshes = listening(ranks);
    const auto addresses = addresses_of(meshes);
    std::vector<Outcome> outcomes(meshes.size());
    on_all(ranks, [&](int rank) {
        const auto n = static_cast<std::size_t>(rank);
        outcomes[n] = meshes[n]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    });
    for (const auto& outcome : outcomes)
        CHECK_FALSE(outcome);
    return meshes;
}

/// No descriptor when the connection is refused.
Descriptor called(const PeerAddress& address) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(address.port);
    ::inet_pton(AF_INET, address.host.c_str(), &where.sin_addr);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) return {};
    return socket;
}

Descriptor caller_of(const PeerAddress& address) {
    auto socket = called(address);
    REQUIRE(socket);
    return socket;
}

}  // namespace

TEST_CASE("wire: an exchange goes through sockets that take a few bytes at a time") {
    for (const std::size_t count : {1u, 1000u, 300'001u}) {
        constexpr int ranks = 3;
        std::vector<Narrow> wires(3);  // 0-1, 0-2, 1-2
        const int sockets[ranks][ranks] = {
            {-1, wires[0].near.get(), wires[1].near.get()},
            {wires[0].far.get(), -1, wires[2].near.get()},
            {wires[1].far.get(), wires[2].far.get(), -1}};
        std::vector<std::vector<std::int32_t>> data(ranks);
        std::vector<char> are_done(ranks);
        on_all(ranks, [&](int rank) {
            const auto n = static_cast<std::size_t>(rank);
            data[n].assign(count, rank + 1);
            Collective call;
            call.kind = Kind::all_reduce;
            call.type = ElementType::int32;
            call.count = count;
            call.data = data[n].data();
            Exchange exchange(rank, ranks);
            Scratch<std::byte> scratch;
            plan(call, rank, ranks, scratch, exchange);
            const Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
            const std::atomic<bool> is_aborted = false;
            Transfer::Polling polling(true);
            const auto end = Transfer(
                                 exchange,
                                 {rank,
                                  std::vector<int>(sockets[rank], sockets[rank] + ranks),
                                  call,
                                  tag,
                                  wake.get(),
                                  is_aborted,
                                  polling,
                                  Transfer::Clock::now() + 1min,
                                  nothing})
                                 .run();
            are_done[n] = std::holds_alternative<Transfer::Done>(end);
        });
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            CHECK(are_done[rank]);
            CHECK(
                std::count(data[rank].begin(), data[rank].end(), 6) ==
                static_cast<std::ptrdiff_t>(count));
        }
    }
}

TEST_CASE("wire: bytes that are no header end the exchange") {
    Alone rank;
    const std::string text(sizeof(Header), 'x');
    rank.say(text.data(), text.size());
    CHECK(why_lost(rank.run()) == "it has sent bytes of no call");
}

TEST_CASE("wire: another length in the same call, or a call that there is not, ends the exchange") {
    Alone rank;
    std::vector<Header> wrong(7, rank.header());
    wrong[0].bytes = 0;
    wrong[1].bytes = 3999;
    wrong[2].bytes = ~std::uint64_t{0};
    wrong[3].kind = 1000;
    wrong[4].type = 1000;
    wrong[5].op = 1000;
    wrong[6].tag = tag + 1;
    for (const auto& header : wrong) {
        Alone one;
        one.say(header);
        CHECK(why_lost(one.run()) == "it has sent bytes of no call");
        CHECK(one.data == std::vector<std::int32_t>(1000, 1));
    }
    // Bytes after the header are written only where those of the expected call would be.
    for (auto header : wrong) {
        header.count = 10;
        Alone one(Kind::broadcast, 10);
        std::vector<std::int32_t> around(30, 1);
        one.call.data = around.data() + 10;
        one.call.count = 10;
        Exchange exchange(0, 2);
        plan(one.call, 0, 2, one.scratch, exchange);
        one.say(header);
        one.say(std::vector<char>(400, 'x').data(), 400);
        CHECK(why_lost(one.run(exchange)) == "it has sent bytes of no call");
        CHECK(std::count(around.begin(), around.begin() + 10, 1) == 10);
        CHECK(std::count(around.end() - 10, around.end(), 1) == 10);
    }
}

TEST_CASE("wire: another call of the peer is a difference at once, which has it") {
    Alone rank;
    auto other = rank.call;
    other.count = 20;
    rank.say(header_of(other, tag + 1, 80));

    const auto end = rank.run();

    REQUIRE(std::holds_alternative<Transfer::Differs>(end));
    CHECK(std::get<Transfer::Differs>(end).peer == 1);
    CHECK(
        describe(std::get<Transfer::Differs>(end).call) ==
        "call 3: broadcast from rank 1 of 20 int32");
}

TEST_CASE("wire: a peer that sends nothing is late when the time is over") {
    Alone rank;
    const auto end = rank.run(50ms);
    REQUIRE(std::holds_alternative<Transfer::Late>(end));
    CHECK(std::get<Transfer::Late>(end).peers == std::vector{1});
}

TEST_CASE("wire: a peer that sends a little all the time is late when the time is over") {
    Alone rank(Kind::broadcast, 4 << 20);
    std::atomic<bool> is_over = false;
    std::thread peer([&] {
        rank.say(rank.header());
        while (!is_over)
            ::send(rank.wire.far.get(), "x", 1, MSG_NOSIGNAL);
    });
    const auto end = rank.run(100ms);
    is_over = true;
    peer.join();
    CHECK(std::holds_alternative<Transfer::Late>(end));
}

TEST_CASE("wire: a peer that ends while nothing can be sent to it yet is lost") {
    AmongThree rank(Kind::all_reduce, 3 << 18);
    // It has sent as much as there is room for, and needs data that rank 2 has not sent.
    auto peer = rank.rank_1(512 << 10, 1 << 20);
    const auto end = rank.run(1min);
    peer.join();
    REQUIRE(std::holds_alternative<Transfer::Lost>(end));
    CHECK(std::get<Transfer::Lost>(end).peer == 1);
    CHECK(why_lost(end) == "its connection was broken");
}

TEST_CASE("wire: a wait goes on to its end beside a peer that has ended and has sent enough") {
    AmongThree rank(Kind::reduce_scatter, 1 << 18);
    auto peer = rank.rank_1(512 << 10, 1 << 20);
    const auto end = rank.run(2s);
    peer.join();
    REQUIRE(std::holds_alternative<Transfer::Late>(end));
    CHECK(std::get<Transfer::Late>(end).peers == std::vector{1, 2});
    CHECK(rank.calls_during_wait > 0);
}

TEST_CASE("wire: an exchange that cannot wait for its connections fails") {
    AmongThree rank(Kind::reduce_scatter, 10);
    const FewDescriptors few(2);
    const auto end = rank.run(1min);
    REQUIRE(std::holds_alternative<Transfer::Failed>(end));
    CHECK(std::get<Transfer::Failed>(end).why == "poll: Invalid argument");
}

TEST_CASE("wire: a peer that closes is lost, wherever the exchange is") {
    for (const std::size_t sent : {0u, 7u, 56u, 100u}) {
        Alone rank;
        std::vector<std::byte> bytes(100);
        const auto header = rank.header();
        ::memcpy(bytes.data(), &header, sizeof header);
        rank.say(bytes.data(), sent);
        rank.wire.far = Descriptor{};
        CHECK(why_lost(rank.run()) == "its connection was closed");
    }
    Alone sender(Kind::barrier);
    sender.wire.far = Descriptor{};
    CHECK(why_lost(sender.run()) != "not lost");
}

TEST_CASE("wire: what a peer has sent before it closed is taken") {
    Alone rank;
    std::vector<std::int32_t> sent(1000, 5);
    std::thread peer([&] {
        const auto header = rank.header();
        std::vector<std::byte> bytes(sizeof header + rank.bytes());
        ::memcpy(bytes.data(), &header, sizeof header);
        ::memcpy(bytes.data() + sizeof header, sent.data(), rank.bytes());
        for (std::size_t at = 0; at < bytes.size();) {
            const auto piece =
                ::send(rank.wire.far.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
            if (piece > 0) at += static_cast<std::size_t>(piece);
        }
        rank.wire.far = Descriptor{};
    });
    const auto end = rank.run();
    peer.join();
    CHECK(std::holds_alternative<Transfer::Done>(end));
    CHECK(rank.data == sent);
}

TEST_CASE("wire: an abort ends a wait, and the peers' waits") {
    auto meshes = connected(3);
    std::vector<Outcome> outcomes(3);
    on_all(3, [&](int rank) {
        // Rank 2 never comes.
        if (rank == 2) return meshes[0]->abort();
        const auto n = static_cast<std::size_t>(rank);
        Exchange exchange(rank, 3);
        Scratch<std::byte> scratch;
        const Collective barrier;
        plan(barrier, rank, 3, scratch, exchange);
        outcomes[n] =
            meshes[n]->perform(exchange, barrier, tag, {Mesh::Clock::now() + 1min, nothing});
    });
    REQUIRE(outcomes[0]);
    CHECK(outcomes[0]->text == "aborted");
    REQUIRE(outcomes[1]);
    CHECK(outcomes[1]->kind == GroupError::Kind::peer_lost);
    CHECK(outcomes[1]->ranks == std::vector{0});
}

TEST_CASE("wire: an abort ends the wait for peers that do not connect") {
    auto meshes = listening(3);
    const auto addresses = addresses_of(meshes);
    Outcome outcome;
    std::thread connecting([&] {
        outcome = meshes[1]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    });
    meshes[1]->abort();
    connecting.join();
    REQUIRE(outcome);
    CHECK(outcome->text == "aborted");
}

TEST_CASE("wire: a peer that does not connect is late, one that does not listen is lost") {
    auto meshes = listening(2);
    auto addresses = addresses_of(meshes);
    const auto late = meshes[0]->connect(addresses, {Mesh::Clock::now() + 50ms, nothing});
    REQUIRE(late);
    CHECK(late->kind == GroupError::Kind::timeout);
    CHECK(late->ranks == std::vector{1});

    // It no longer waits for connections, and refuses new ones.
    const auto refused = meshes[1]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    REQUIRE(refused);
    CHECK(refused->kind == GroupError::Kind::peer_lost);
    CHECK(refused->ranks == std::vector{0});

    meshes[0].reset();
    const auto lost = meshes[1]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    REQUIRE(lost);
    CHECK(lost->kind == GroupError::Kind::peer_lost);
    CHECK(lost->ranks == std::vector{0});
}

TEST_CASE("wire: a rank that has aborted refuses peers that come later") {
    auto meshes = listening(2);
    const auto addresses = addresses_of(meshes);
    meshes[0]->abort();
    const auto lost = meshes[1]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    REQUIRE(lost);
    CHECK(lost->kind == GroupError::Kind::peer_lost);
    CHECK(lost->ranks == std::vector{0});
}

TEST_CASE("wire: a peer that cannot be reached for a moment is tried until the time is over") {
    auto meshes = listening(2);
    auto addresses = addresses_of(meshes);
    // A broadcast address, to which there is no connection.
    addresses[0].host = "127.255.255.255";
    int calls = 0;
    const std::function<void()> during_wait = [&] { ++calls; };
    const auto late = meshes[1]->connect(addresses, {Mesh::Clock::now() + 500ms, during_wait});
    REQUIRE(late);
    CHECK(late->kind == GroupError::Kind::timeout);
    CHECK(late->text == "no connection: Network is unreachable");
    CHECK(late->ranks == std::vector{0});
    CHECK(calls > 0);
}

TEST_CASE("wire: connections of other programs postpone neither the end of the time nor checks") {
    auto meshes = listening(2);
    const auto addresses = addresses_of(meshes);
    std::atomic<bool> is_over = false;
    std::thread others([&] {
        // Reset, so that no port stays in use.
        constexpr linger at_once{1, 0};
        while (!is_over)
            ::setsockopt(
                called(addresses[0]).get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    });
    int calls = 0;
    const std::function<void()> during_wait = [&] { ++calls; };
    const auto late = meshes[0]->connect(addresses, {Mesh::Clock::now() + 1s, during_wait});
    is_over = true;
    others.join();
    REQUIRE(late);
    CHECK(late->kind == GroupError::Kind::timeout);
    CHECK(calls > 0);
}

TEST_CASE("wire: a peer that has greeted is connected, whatever connects after it") {
    auto meshes = listening(2);
    const auto addresses = addresses_of(meshes);
    const auto peer = caller_of(addresses[0]);
    struct {
        std::uint32_t version = 0x77697201;
        std::int32_t rank = 1;
        Token token{};
    } greeting;
    greeting.token = addresses[0].token;
    CHECK(::send(peer.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting);
    std::vector<Descriptor> others;
    for (int i = 0; i < 40; ++i)
        others.push_back(caller_of(addresses[0]));

    CHECK_FALSE(meshes[0]->connect(addresses, {Mesh::Clock::now() + 1min, nothing}));

    Token answer{};
    CHECK(::recv(peer.get(), answer.data(), answer.size(), MSG_WAITALL) == sizeof answer);
    CHECK(is_same(answer, addresses[1].token));
}

TEST_CASE("wire: a rank without a descriptor for a connection says so") {
    auto meshes = listening(2);
    const auto addresses = addresses_of(meshes);
    const auto other = caller_of(addresses[0]);
    const FewDescriptors few(2);
    const auto error = meshes[0]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    REQUIRE(error);
    CHECK(error->kind == GroupError::Kind::other);
    CHECK(error->text == "accept: this process may have no more than 2 descriptors (ulimit -n)");
}

TEST_CASE("wire: a rank that may not have a descriptor for each peer does not begin") {
    const FewDescriptors few(100);
    const auto opened = Mesh::open({0, 1000, "127.0.0.1", true});
    REQUIRE(std::holds_alternative<GroupError>(opened));
    CHECK(
        std::get<GroupError>(opened).text ==
        "connections of 1000 ranks take a descriptor each, and this process may have 100 "
        "(ulimit -n)");
}

TEST_CASE("wire: connections of other programs are closed, and keep no rank from connecting") {
    auto meshes = listening(2);
    const auto addresses = addresses_of(meshes);
    std::vector<Descriptor> others;
    for (int i = 0; i < 40; ++i) {
        auto other = caller_of(addresses[0]);
        // Callers that are silent, send an invalid greeting, or do not have the token.
        struct {
            std::uint32_t version = 0x77697201;
            std::int32_t rank = 1;
            Token token{};
        } greeting;
        if (i % 3 == 1) ::send(other.get(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, MSG_NOSIGNAL);
        if (i % 3 == 2) ::send(other.get(), &greeting, sizeof greeting, MSG_NOSIGNAL);
        others.push_back(std::move(other));
    }
    std::vector<Outcome> outcomes(2);
    on_all(2, [&](int rank) {
        const auto n = static_cast<std::size_t>(rank);
        outcomes[n] = meshes[n]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    });
    CHECK_FALSE(outcomes[0]);
    CHECK_FALSE(outcomes[1]);
    for (const auto& other : others) {
        char byte = 0;
        CHECK(::recv(other.get(), &byte, 1, 0) <= 0);
    }
}

TEST_CASE("wire: a peer that answers with another token is not one of the group") {
    auto meshes = listening(2);
    auto addresses = addresses_of(meshes);
    // The address has a wrong token, as when it is another rank's.
    addresses[0].token.fill(9);
    std::thread other([&] {
        const auto outcome = meshes[0]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
        CHECK(outcome);
    });
    const auto outcome = meshes[1]->connect(addresses, {Mesh::Clock::now() + 1min, nothing});
    REQUIRE(outcome);
    CHECK(outcome->kind == GroupError::Kind::peer_lost);
    CHECK(outcome->ranks == std::vector{0});
    meshes[0]->abort();
    other.join();
}

TEST_CASE("wire: connections that could not be made are not made again") {
    int opened = 0;
    TwoLevelTransport::Settings settings;
    settings.hosts = {{0}, {1}};
    settings.monitor = std::make_shared<FailureMonitor>(
        FailureMonitor::Settings{FailureMonitor::Way::memory, {}, {}});
    settings.open = [&](const auto&, const auto&) -> TwoLevelTransport::Opened {
        ++opened;
        return GroupError{GroupError::Kind::other, "no network"};
    };
    TwoLevelTransport transport(settings);
    for (int i = 0; i < 2; ++i) {
        const auto error = transport.run(Collective{}, 1s);
        REQUIRE(error);
        CHECK(error->text == "no network");
    }
    CHECK(opened == 1);
}

TEST_CASE("wire: an error of the store while ranks connect is one of the group") {
    const World world;
    auto opened = WireTransport::open(
        {{0, 1},
         0,
         "127.0.0.1",
         true,
         Store::connect(world),
         std::string("no key\0", 7),
         DeathReports(world, {}),
         Mesh::Clock::now() + 1min});
    const auto error = std::get<std::unique_ptr<WireTransport>>(opened)->connect();
    REQUIRE(error);
    CHECK(error->kind == GroupError::Kind::usage);
    CHECK(error->text.find("a key with a zero in it") != std::string::npos);
}

TEST_CASE("wire: messages go both ways at the same time") {
    auto meshes = connected(2);
    constexpr std::size_t count = 3 << 20;
    on_all(4, [&](int n) {
        const int rank = n / 2;
        const bool is_sender = n % 2 == 0;
        std::vector<std::byte> bytes(count, std::byte{static_cast<unsigned char>(rank)});
        Collective call;
        call.kind = is_sender ? Kind::send : Kind::recv;
        call.root = is_sender ? rank : 1 - rank;
        call.receiver = 1 - call.root;
        call.count = count;
        call.input = call.data = bytes.data();
        Exchange exchange(rank, 2);
        Scratch<std::byte> scratch;
        plan(call, rank, 2, scratch, exchange);
        auto& mesh = *meshes[static_cast<std::size_t>(rank)];
        const auto outcome =
            mesh.perform(exchange, call, tag, {Mesh::Clock::now() + 1min, nothing});
        CHECK_FALSE(outcome);
        const auto from = std::byte{static_cast<unsigned char>(call.root)};
        CHECK(std::count(bytes.begin(), bytes.end(), from) == static_cast<std::ptrdiff_t>(count));
    });
}
