// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/pages.hpp"

#include "rendezvous/base/limits.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::server {
namespace {

/// A server with this many jobs, one in each turn.
struct Serving {
    explicit Serving(std::uint64_t count)
        : pages(
              io,
              {[this, count](
                   JobPage& page, const coordinator::Scope&, std::uint64_t after) -> std::uint64_t {
                   ++turns;
                   now += turn_length;
                   coordinator::JobStatus job;
                   job.run_id = "job " + std::to_string(after);
                   job.timeline.emplace();
                   page.add(job);
                   return after + 1 < count ? after + 1 : 0;
               },
               [this]() -> boost::asio::awaitable<ServerStatus> {
                   ++finished;
                   co_return ServerStatus{};
               },
               [this] { return now; }}) {}

    void ask(const std::string& path) {
        boost::asio::co_spawn(io, keep(path), boost::asio::detached);
    }
    boost::asio::awaitable<void> keep(std::string path) {
        const auto head = read_http_head("GET " + path + " HTTP/1.1\r\n\r\n");
        got.push_back(
            co_await pages.get(std::get<HttpRequest>(head), coordinator::Scope::everything()));
    }
    /// Simulates other work of the thread: one task in each round of its queue, while pages are
    /// made.
    void do_other_things() {
        boost::asio::post(io, [this] {
            ++other_things;
            if (finished == 0) do_other_things();
        });
    }

    boost::asio::io_context io;
    Instant now{std::chrono::hours{1}};
    Duration turn_length{};
    std::uint64_t turns = 0;
    int finished = 0;
    std::uint64_t other_things = 0;
    std::vector<Page> got;
    Pages pages;
};

}  // namespace

TEST_CASE("a page of many jobs is made once for all that ask, and between its turns others act") {
    Serving server(100);
    server.turn_length = std::chrono::microseconds{10};
    for (int i = 0; i < 10; ++i)
        server.ask("/status");
    server.do_other_things();
    server.io.run();

    REQUIRE(server.got.size() == 10);
    CHECK(server.turns == 100);
    CHECK(server.other_things >= 100);
    for (const auto& page : server.got)
        CHECK(page == server.got.front());
    CHECK(server.got.front()->body.find("job 99") != std::string::npos);
}

TEST_CASE("a page that took long is made again after a while, one that did not each time") {
    const auto turns_of_two = [](std::uint64_t jobs,
                                 Duration between,
                                 Duration turn_length = std::chrono::microseconds{10}) {
        Serving server(jobs);
        server.turn_length = turn_length;
        server.ask("/metrics");
        server.io.run();
        server.now += between;
        server.io.restart();
        server.ask("/metrics");
        server.io.run();
        return server.turns;
    };
    CHECK(turns_of_two(100, std::chrono::milliseconds{10}) == 100);
    CHECK(turns_of_two(100, limits::page_lifetime) == 200);
    CHECK(turns_of_two(1, Duration{}) == 2);
    // A page of few jobs with many nodes each.
    CHECK(turns_of_two(1, Duration{}, std::chrono::milliseconds{2}) == 1);
    CHECK(turns_of_two(1, std::chrono::milliseconds{40}, std::chrono::milliseconds{2}) == 2);
}

TEST_CASE("a timeline is made once per second, and the one of another job or round besides") {
    Serving server(1);
    const auto turns_after = [&](const std::string& path) {
        server.io.restart();
        server.ask(path);
        server.io.run();
        return server.turns;
    };
    CHECK(turns_after("/timeline?job=a") == 1);
    CHECK(turns_after("/timeline?job=a") == 1);
    CHECK(turns_after("/timeline?job=b") == 2);
    CHECK(turns_after("/timeline?job=a&from=5") == 3);
    server.now += limits::page_lifetime;
    CHECK(turns_after("/timeline?job=a") == 4);
}

TEST_CASE("so many callers are served at a time, and so many of one network") {
    auto server = std::make_unique<Serving>(1);
    std::vector<std::shared_ptr<Pages::Seat>> seats;
    const auto admit = [&](const std::string& network) {
        auto seat = server->pages.admit(network);
        const bool is_admitted = seat != nullptr;
        if (is_admitted) seats.push_back(std::move(seat));
        return is_admitted;
    };
    for (std::size_t i = 0; i < limits::max_page_callers_per_network; ++i)
        CHECK(admit("10.0.0.1"));
    CHECK_FALSE(admit("10.0.0.1"));
    CHECK(admit("10.0.0.2"));
    seats.erase(seats.begin());
    CHECK(admit("10.0.0.1"));

    for (int network = 3; seats.size() < limits::max_page_callers; ++network)
        CHECK(admit("10.0.0." + std::to_string(network)));
    CHECK_FALSE(admit("10.1.0.1"));
    // Connections may outlive the server.
    server.reset();
    seats.clear();
}

}  // namespace ddprun::server
