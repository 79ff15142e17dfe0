// SPDX-License-Identifier: Apache-2.0
// The store server as a shell: other protocols, slow readers, too few descriptors, going away.
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/server/store_server.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/store_thread.hpp"

#include <boost/asio/read.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::wire;
using namespace std::chrono_literals;
using test::from_hex;
using test::RawClient;
using test::StoreThread;
using test::to_hex;

namespace {

std::string encoded(std::initializer_list<Request> requests) {
    std::string bytes;
    for (const auto& request : requests)
        encode(request, bytes);
    return bytes;
}

const std::string pong = from_hex("07 00 00 00");

/// A connection that has greeted and was answered.
RawClient greeted(std::uint16_t port) {
    RawClient client(port);
    client.say(encoded({Validate{}, Ping{7}}));
    REQUIRE(to_hex(client.hear(4)) == to_hex(pong));
    return client;
}

/// A store's reports about its waits, made on its thread.
class Reports {
public:
    server::StoreServer::OnWait taker() {
        return [this](control::StoreWait wait) {
            const std::lock_guard lock(mutex_);
            waits_.push_back(std::move(wait));
            arrived_.notify_one();
        };
    }
    /// Returns the first matching report and skips others.
    control::StoreWait next(const std::function<bool(const control::StoreWait&)>& is_wanted) {
        std::unique_lock lock(mutex_);
        for (;;) {
            REQUIRE(arrived_.wait_for(lock, 30s, [&] { return !waits_.empty(); }));
            auto wait = std::move(waits_.front());
            waits_.pop_front();
            if (is_wanted(wait)) return wait;
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<control::StoreWait> waits_;
};

/// Pages of this process: resident ones, or all of its address space.
std::size_t statm(bool is_resident) {
    std::ifstream file("/proc/self/statm");
    std::size_t pages = 0, resident_pages = 0;
    file >> pages >> resident_pages;
    return (is_resident ? resident_pages : pages) *
           static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}
std::size_t resident_bytes() {
    return statm(true);
}
std::size_t virtual_bytes() {
    return statm(false);
}

/// Collects what is logged while it lives.
class LogOf {
public:
    LogOf() {
        log::set_sink([this](std::string line) {
            const std::scoped_lock lock(mutex_);
            text_ += line;
        });
    }
    ~LogOf() { log::set_sink({}); }

    std::size_t count(const std::string& what) {
        const std::scoped_lock lock(mutex_);
        std::size_t count = 0;
        for (auto at = text_.find(what); at != std::string::npos; at = text_.find(what, at + 1))
            ++count;
        return count;
    }

private:
    std::mutex mutex_;
    std::string text_;
};

}  // namespace

TEST_CASE("peers of other protocols are turned away, counted, and named once") {
    StoreThread store;
    LogOf log;

    struct Row {
        const char* bytes;
        /// The expected answer; TLS has an alert for this case.
        std::string_view answer;
    };
    for (const auto& row :
         {Row{"GET / HTTP/1.1\r\n\r\n", ""},
          Row{"SSH-2.0-x\r\n", ""},
          Row{"\x16\x03\x01\x02\x00", {"\x15\x03\x03\x00\x02\x02\x47", 7}}}) {
        RawClient client(store.port());
        client.say(row.bytes);
        CHECK(client.hear(row.answer.size()) == std::string{row.answer});
        CHECK(client.hears_the_end());
    }

    CHECK(store.becomes([](const auto& now) { return now.refused == 3 && now.open == 0; }));
    CHECK(log.count("store.refused") == 1);
    auto client = greeted(store.port());
}

TEST_CASE("an older PyTorch and a big-endian host are distinguished from garbage") {
    for (const auto& [bytes, words] : {
             std::pair{"03 05 00 00 00 00 00 00 00 69 6e 69 74 2f", "PyTorch 2.1 or older"},
             std::pair{"00 3c 85 f7 ce", "big-endian"},
         }) {
        StoreThread store;
        LogOf log;
        RawClient client(store.port());
        client.say(from_hex(bytes));
        CHECK(client.hears_the_end());
        CHECK(log.count(words) == 1);
    }
}

TEST_CASE("a waiting client is answered as soon as another one writes the key") {
    StoreThread store;
    auto waiter = greeted(store.port());
    auto writer = greeted(store.port());
    waiter.say(encoded({Wait{{"/k"}}}));
    REQUIRE(store.becomes([](const auto& now) { return now.waits == 1; }));

    writer.say(encoded({Set{"/k", "v"}}));

    CHECK(to_hex(waiter.hear(1)) == "00");
}

TEST_CASE("when the end of a wait and its cancellation cross, the end comes first") {
    StoreThread store;
    auto waiter = greeted(store.port());
    auto writer = greeted(store.port());
    for (int i = 0; i < 200; ++i) {
        const auto key = "/r" + std::to_string(i);
        waiter.say(encoded({Wait{{key}}}));
        writer.say(encoded({Set{key, ""}}));
        waiter.say(encoded({CancelWait{}, Ping{7}}));
        const auto first = to_hex(waiter.hear(1));
        if (first == "00") CHECK(to_hex(waiter.hear(1)) == "01");
        CHECK((first == "00" || first == "01"));
        CHECK(to_hex(waiter.hear(4)) == to_hex(pong));
    }
}

TEST_CASE("long waits and their end are reported, with the clients that wait for the same key") {
    Reports reports;
    StoreThread store;
    store.on_thread([&] {
        store.server().watch_waits(reports.taker(), {.long_wait = 50ms, .check_interval = 10ms});
    });
    auto first = greeted(store.port());
    first.say(encoded({Wait{{"/a", "/b"}}}));
    auto second = greeted(store.port());
    second.say(encoded({Wait{{"/a"}}}));
    REQUIRE(store.becomes([](const auto& counters) { return counters.waits == 2; }));

    auto report = reports.next([](const auto& wait) { return wait.client_count == 2; });
    CHECK(report.key == "/a");
    CHECK(report.more_keys == 1);
    CHECK(report.age >= 50ms);
    CHECK_FALSE(report.has_timed_out);
    CHECK(report.sockets.size() == 2);

    second.say(encoded({CancelWait{}, Set{"/a", ""}, Set{"/b", ""}}));
    reports.next([](const auto& wait) { return wait.client_count == 0; });
}

TEST_CASE("a wait that its client cancels after its timeout is reported before it is gone") {
    Reports reports;
    StoreThread store;
    store.on_thread([&] {
        store.server().watch_waits(
            reports.taker(), {.check_interval = 1h, .shortest_timed_out = 0ms});
    });
    auto client = greeted(store.port());
    client.say(encoded({Wait{{"/a"}}}));
    REQUIRE(store.becomes([](const auto& counters) { return counters.waits == 1; }));
    client.say(encoded({CancelWait{}}));

    const auto report = reports.next([](const auto&) { return true; });
    CHECK(report.key == "/a");
    CHECK(report.has_timed_out);
    CHECK(report.client_count == 1);
    CHECK(report.sockets.size() == 1);
}

TEST_CASE("a client that leaves while waiting for a queue leaves its element to the next") {
    StoreThread store;
    auto pusher = greeted(store.port());
    auto second = greeted(store.port());
    {
        auto first = greeted(store.port());
        first.say(encoded({Wait{{"/q"}}}));
        REQUIRE(store.becomes([](const auto& now) { return now.waits == 1; }));
        second.say(encoded({Wait{{"/q"}}}));
        REQUIRE(store.becomes([](const auto& now) { return now.waits == 2; }));
        pusher.say(encoded({QueuePush{"/q", "x"}}));
        CHECK(to_hex(first.hear(1)) == "00");
    }
    CHECK(to_hex(second.hear(1)) == "00");
}

TEST_CASE("a queue element that is not fetched is given to the next waiter in time") {
    StoreThread store;
    auto pusher = greeted(store.port());
    auto first = greeted(store.port());
    auto second = greeted(store.port());
    first.say(encoded({Wait{{"/q"}}}));
    REQUIRE(store.becomes([](const auto& now) { return now.waits == 1; }));
    second.say(encoded({Wait{{"/q"}}}));
    REQUIRE(store.becomes([](const auto& now) { return now.waits == 2; }));

    pusher.say(encoded({QueuePush{"/q", "x"}}));

    CHECK(to_hex(first.hear(1)) == "00");
    CHECK(to_hex(second.hear(1)) == "00");
}

TEST_CASE("a client that does not read delays no other, and gets everything when it reads") {
    StoreThread store;
    auto writer = greeted(store.port());
    auto slow = greeted(store.port());
    const std::string value(4 * 1024 * 1024, 'x');
    const int count = 40;
    writer.say(encoded({Set{"/big", value}, Ping{7}}));
    CHECK(writer.hear(4) == pong);

    for (int i = 0; i < count; ++i)
        slow.say(encoded({Get{"/big"}}));
    writer.say(encoded({Get{"/big"}}));

    CHECK(writer.hear(8 + value.size()).size() == 8 + value.size());
    for (int i = 0; i < count; ++i)
        CHECK(slow.hear(8 + value.size()).size() == 8 + value.size());
    slow.say(encoded({Ping{7}}));
    CHECK(slow.hear(4) == pong);
}

TEST_CASE("a client that streams requests yields to the others after its turn") {
    StoreThread store;
    boost::asio::io_context io;
    auto acceptor = net::listen(io, "127.0.0.1", 0).value();
    // So large that one read could return the requests of several turns.
    acceptor.set_option(boost::asio::socket_base::receive_buffer_size(4 * 1024 * 1024));
    RawClient streaming(acceptor.local_endpoint().port());
    const int first = acceptor.accept().release();
    RawClient other(acceptor.local_endpoint().port());
    const int second = acceptor.accept().release();
    std::string requests = encoded({Validate{}});
    std::size_t count = 0;
    for (; requests.size() < 3 * limits::store_turn_bytes; ++count)
        requests += encoded({Set{"/" + std::to_string(100'000 + count), "v"}});
    streaming.say(requests);
    other.say(encoded({Validate{}, NumKeys{}}));
    int unread = 0;
    while (static_cast<std::size_t>(unread) < requests.size())
        REQUIRE(::ioctl(first, FIONREAD, &unread) == 0);

    store.on_thread([&] {
        for (const int descriptor : {first, second}) {
            net::Tcp::socket socket(store.io());
            socket.assign(net::Tcp::v4(), descriptor);
            store.server().adopt(std::move(socket), {});
        }
    });

    // The number of keys when the other client's request was handled.
    std::uint64_t keys = 0;
    const auto reply = other.hear(sizeof keys);
    std::memcpy(&keys, reply.data(), reply.size());
    CHECK(keys > 0);
    CHECK(keys <= 2 * limits::store_turn_bytes * count / requests.size());
    streaming.say(encoded({Ping{7}}));
    CHECK(streaming.hear(4) == pong);
    CHECK(store.counters().keys == count);
}

TEST_CASE("a socket that is ready again and again delays no other") {
    boost::asio::io_context io;
    std::vector<std::uint64_t> served;
    server::StorePoller poller(io, [&](std::uint64_t number, std::uint32_t) {
        served.push_back(number);
        return true;
    });
    int first[2];
    int second[2];
    for (auto* pair : {first, second})
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    REQUIRE(poller.add(first[0], 1));
    REQUIRE(poller.add(second[0], 2));

    REQUIRE(::write(first[1], "x", 1) == 1);
    for (int i = 0; i < 4; ++i)
        io.run_one();
    CHECK(served == std::vector<std::uint64_t>(4, 1));
    REQUIRE(::write(second[1], "x", 1) == 1);
    for (int i = 0; i < 16; ++i)
        io.run_one();

    CHECK(std::count(served.begin(), served.end(), 2) > 0);
    poller.change(first[0], 1, 0);
    poller.remove(second[0]);
    served.clear();
    for (int i = 0; i < 16; ++i)
        io.poll_one();
    CHECK(std::count(served.begin(), served.end(), 2) == 0);
    for (const int descriptor : {first[0], first[1], second[0], second[1]})
        ::close(descriptor);
}

TEST_CASE("half a request delays no other client") {
    StoreThread store;
    auto half = greeted(store.port());
    auto other = greeted(store.port());
    const auto bytes = encoded({Set{"/k", "v"}});
    half.say(bytes.substr(0, bytes.size() - 1));

    other.say(encoded({Check{{"/k"}}}));
    CHECK(to_hex(other.hear(1)) == "01");

    half.say(bytes.substr(bytes.size() - 1) + encoded({Ping{7}}));
    CHECK(half.hear(4) == pong);
    other.say(encoded({Check{{"/k"}}}));
    CHECK(to_hex(other.hear(1)) == "00");
}

TEST_CASE("replies that are not read share a big value, however many they are") {
    constexpr std::size_t mebi = 1024 * 1024;
    StoreThread store;
    auto writer = greeted(store.port());
    for (int i = 0; i < 8; ++i)
        writer.say(encoded({Append{"/big", std::string(8 * mebi, 'v')}}));
    writer.say(encoded({Ping{7}}));
    REQUIRE(writer.hear(4) == pong);
    const auto before = resident_bytes();

    // Each is one short request.
    std::vector<RawClient> clients;
    for (int i = 0; i < 6; ++i) {
        clients.push_back(greeted(store.port()));
        clients.back().say(encoded({Get{"/big"}}));
    }
    MultiGet many;
    many.keys.assign(4, "/big");
    for (int i = 0; i < 8; ++i) {
        clients.push_back(greeted(store.port()));
        clients.back().say(encoded({many}));
    }
    REQUIRE(store.becomes([&](const auto& now) { return now.requests >= 2 * 15 + 9 + 14; }));

    CHECK(resident_bytes() < before + 64 * mebi);
    CHECK(store.counters().client_bytes < mebi);
    // The value is deleted, but counted until no reply refers to it.
    writer.say(encoded({DeleteKey{"/big"}}));
    writer.hear(8);
    CHECK(store.counters().data_bytes >= 64 * mebi);
    clients.clear();
    CHECK(store.becomes([](const auto& now) { return now.data_bytes == 0; }));
}

TEST_CASE("a store that is full refuses more data, and serves its clients") {
    server::StoreBounds bounds;
    bounds.data_bytes = 1024 * 1024;
    StoreThread store(bounds);
    LogOf log;
    auto healthy = greeted(store.port());
    healthy.say(encoded({Set{"/k", "v"}, Add{"/count", 1}}));
    healthy.hear(8);

    for (int client = 0; client < 2; ++client) {
        auto hostile = greeted(store.port());
        std::string pushes;
        for (int i = 0; i < 10'000; ++i)
            pushes += encoded({QueuePush{"/" + std::to_string(i), ""}});
        hostile.try_to_say(pushes);
        CHECK(hostile.hears_the_end());
    }

    CHECK(store.becomes([](const auto& now) { return now.closed == 2; }));
    CHECK(store.counters().data_bytes <= bounds.data_bytes);
    CHECK(log.count("store.closed_connection") == 1);
    CHECK(log.count("it holds at most 1048576") == 1);
    healthy.say(encoded({Set{"/k", "w"}, Add{"/count", 1}, Get{"/k"}}));
    CHECK(healthy.hear(8).front() == 2);
    CHECK(healthy.hear(9).back() == 'w');
}

TEST_CASE("the client that holds most is closed when all together hold too much") {
    server::StoreBounds bounds;
    bounds.client_bytes = 16 * 1024 * 1024;
    StoreThread store(bounds);
    LogOf log;
    auto healthy = greeted(store.port());
    healthy.say(encoded({Wait{{"/k"}}}));

    SUBCASE("of waits") {
        std::vector<RawClient> hostile;
        for (std::size_t client = 0; client < 3; ++client) {
            Wait wait;
            for (std::size_t i = 0; i < 40'000; ++i)
                wait.keys.push_back("/" + std::to_string(client) + "/" + std::to_string(i));
            hostile.push_back(greeted(store.port()));
            hostile.back().try_to_say(encoded({wait}));
        }
        CHECK(store.becomes([](const auto& now) { return now.closed > 0; }));
    }
    SUBCASE("of an incomplete request") {
        auto hostile = greeted(store.port());
        MultiSet request;
        for (int i = 0; i < 3; ++i)
            request.pairs.push_back({"/" + std::to_string(i), std::string(7'000'000, 'v')});
        request.pairs.push_back({"/last", "v"});
        const auto bytes = encoded({request});
        hostile.try_to_say(bytes.substr(0, bytes.size() - 1));
        CHECK(store.becomes([](const auto& now) { return now.closed == 1; }));
    }
    SUBCASE("of replies that are not read") {
        auto hostile = greeted(store.port());
        MultiGet request;
        request.keys.assign(40'000, "/small");
        hostile.say(encoded({Set{"/small", std::string(1000, 'v')}, request}));
        CHECK(store.becomes([](const auto& now) { return now.closed == 1; }));
    }

    CHECK(store.becomes([&](const auto& now) { return now.client_bytes <= bounds.client_bytes; }));
    CHECK(log.count("store.closed_connection") == 1);
    CHECK(log.count("this one holds most of it") == 1);
    auto writer = greeted(store.port());
    writer.say(encoded({Set{"/k", "v"}}));
    CHECK(to_hex(healthy.hear(1)) == "00");
}

TEST_CASE("a client that reads none of its replies is closed in time") {
    server::StoreBounds bounds;
    bounds.unread_reply_timeout = 200ms;
    StoreThread store(bounds);
    LogOf log;
    auto idle = greeted(store.port());
    auto unread = greeted(store.port());
    unread.say(encoded({Set{"/big", std::string(8 * 1024 * 1024, 'v')}}));
    for (int i = 0; i < 4; ++i)
        unread.say(encoded({Get{"/big"}}));

    CHECK(store.becomes([](const auto& now) { return now.closed == 1; }));
    CHECK(log.count("no reply was read") == 1);
    idle.say(encoded({Ping{7}}));
    CHECK(idle.hear(4) == pong);
}

TEST_CASE("without memory for a request its connection ends, and the others are served") {
#if defined(__SANITIZE_ADDRESS__)
    std::puts("SKIP without memory for a request: ASan reserves the whole address space");
    return;
#endif
    StoreThread store;
    LogOf log;
    auto healthy = greeted(store.port());
    auto hostile = greeted(store.port());
    const auto block = encoded({Append{"/big", std::string(8 * 1024 * 1024, 'v')}});

    rlimit before{};
    ::getrlimit(RLIMIT_AS, &before);
    auto little = before;
    little.rlim_cur = virtual_bytes() + 128 * 1024 * 1024;
    ::setrlimit(RLIMIT_AS, &little);
    for (int i = 0; i < 32 && store.counters().closed == 0; ++i)
        hostile.try_to_say(block);
    const bool is_closed = store.becomes([](const auto& now) { return now.closed == 1; });
    ::setrlimit(RLIMIT_AS, &before);

    CHECK(is_closed);
    CHECK(log.count("no memory") == 1);
    healthy.say(encoded({Set{"/k", "v"}, Get{"/k"}}));
    CHECK(healthy.hear(9).back() == 'v');
}

TEST_CASE("a draining server ends every stream in order and is done when all have left") {
    StoreThread store;
    auto client = std::make_unique<RawClient>(greeted(store.port()));
    std::promise<void> drained;

    store.on_thread([&] { store.server().drain(30s, [&] { drained.set_value(); }); });

    CHECK(client->hears_the_end());
    client->try_to_say(encoded({Ping{7}}));
    client.reset();
    CHECK(drained.get_future().wait_for(20s) == std::future_status::ready);
}

TEST_CASE("a draining server does not wait longer than its timeout") {
    StoreThread store;
    auto client = greeted(store.port());
    std::promise<void> drained;

    store.on_thread([&] { store.server().drain(50ms, [&] { drained.set_value(); }); });

    CHECK(drained.get_future().wait_for(20s) == std::future_status::ready);
    CHECK(client.hears_the_end());
}

TEST_CASE("a connection that was read from before is adopted with what was read") {
    StoreThread store;
    boost::asio::io_context io;
    auto acceptor = net::listen(io, "127.0.0.1", 0).value();
    RawClient client(acceptor.local_endpoint().port());
    client.say(encoded({Validate{}, Ping{7}}));
    auto accepted = acceptor.accept();
    std::string first(7, '\0');
    boost::asio::read(accepted, boost::asio::buffer(first));
    const int descriptor = accepted.release();

    store.on_thread([&] {
        net::Tcp::socket socket(store.io());
        socket.assign(net::Tcp::v4(), descriptor);
        store.server().adopt(std::move(socket), first);
    });

    CHECK(client.hear(4) == pong);
}

TEST_CASE("without a free descriptor callers are turned away, and later ones served again") {
#if defined(__SANITIZE_ADDRESS__)
    // UBSan checks an object's type by writing it to a pipe; without a free descriptor for the pipe
    // it reports every object.
    std::puts("SKIP without a free descriptor: UBSan needs some itself");
    return;
#endif
    StoreThread store;
    LogOf log;
    auto served = greeted(store.port());

    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    auto few = before;
    few.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &few);
    std::vector<int> hoard;
    for (int descriptor; (descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;)
        hoard.push_back(descriptor);
    REQUIRE_FALSE(hoard.empty());
    // This process has both ends: the caller gets the last free descriptor.
    ::close(hoard.back());
    hoard.pop_back();
    {
        RawClient turned_away(store.port());
        CHECK(turned_away.hears_the_end());
    }
    for (const int descriptor : hoard)
        ::close(descriptor);
    ::setrlimit(RLIMIT_NOFILE, &before);

    CHECK(log.count("listener.accept_failed") == 1);
    auto again = greeted(store.port());
    served.say(encoded({Ping{7}}));
    CHECK(served.hear(4) == pong);
}
