// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"
#include "rendezvous/coordinator/scope.hpp"
#include "rendezvous/server/http_status.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::server {

/// A finished page, shared by any number of callers.
using Page = std::shared_ptr<const HttpResponse>;

/// Makes the pages on the coordinator's thread without blocking it for long: one page at a time,
/// and a few jobs in each turn of the `io_context`. After a page of many turns, or of more than 1
/// ms, it pauses for as long as the page took. Such a page is served again for a while, so that
/// many requests cost no more than a few.
class Pages {
public:
    struct Source {
        /// Adds the next jobs of the scope after number `after` (0: the first ones) to the page.
        /// Returns the number of the last added job; 0 when there are no more.
        std::function<std::uint64_t(
            JobPage& page, const coordinator::Scope& scope, std::uint64_t after)>
            add_jobs;
        /// Collects everything on the pages except the jobs.
        std::function<boost::asio::awaitable<ServerStatus>()> ask_server;
        std::function<Instant()> now;
    };

    /// Counts a caller as being served, from its request to the last byte of its page. May outlive
    /// `Pages`.
    class Seat;

    Pages(boost::asio::io_context& io, Source source);

    /// Null: too many callers of this network, or in all, are being served.
    std::shared_ptr<Seat> admit(const std::string& network);
    /// Null: the page could not be begun within `limits::http_timeout`, or callers are still
    /// reading too many bytes.
    boost::asio::awaitable<Page> get(HttpRequest request, coordinator::Scope scope);

private:
    struct Kept {
        Page page;
        Instant until{};
    };

    Page kept(const std::string& name);
    boost::asio::awaitable<Page> make(
        HttpRequest request, coordinator::Scope scope, std::string name);
    bool has_room_for(std::size_t bytes) const;
    std::size_t unread_bytes();

    boost::asio::io_context& io_;
    Source source_;
    struct Callers {
        std::size_t count = 0;
        std::map<std::string, std::size_t> of_network;
    };
    std::shared_ptr<Callers> callers_ = std::make_shared<Callers>();
    bool is_making_ = false;
    /// A timer that never expires: its waits are cancelled when a page has been made.
    boost::asio::steady_timer made_;
    Instant rests_until_{};
    std::map<std::string, Kept> kept_;
    std::vector<std::weak_ptr<const HttpResponse>> being_read_;
};

}  // namespace ddprun::server
