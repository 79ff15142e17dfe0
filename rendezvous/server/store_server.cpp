// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store_server.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/memory_reserve.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/server/store_connection.hpp"
#include "rendezvous/store/store_text.hpp"
#include "rendezvous/wire/text.hpp"

#include <boost/asio/post.hpp>

#include <new>
#include <utility>
#include <variant>

namespace ddprun::server {
namespace {

constexpr std::size_t most_logged_bytes = 16;

}  // namespace

StoreServer::StoreServer(boost::asio::io_context& io, StoreBounds bounds, wire::Accepted accepted)
    : io_(io),
      driver_(
          io, "store", store::Store{bounds.data_bytes}, [this](auto& effect) { perform(effect); }),
      poller_(
          io,
          [this](std::uint64_t number, std::uint32_t events) {
              const auto place = connections_.find(number);
              if (place == connections_.end()) return false;
              const auto connection = place->second;
              return connection->on_ready(events);
          }),
      turn_(limits::store_turn_bytes),
      bounds_(bounds),
      accepted_(accepted),
      unread_timer_(io),
      wait_timer_(io),
      drain_timer_(io) {
    keep_memory_reserve();
}

StoreServer::~StoreServer() {
    stop();
}

void StoreServer::serve(net::Tcp::acceptor acceptor) {
    listeners_.push_back(std::make_shared<Listener>(
        std::move(acceptor),
        [this](net::Tcp::socket socket) { adopt(std::move(socket), {}); },
        Listener::Callers::own_user_on_loopback));
    listeners_.back()->start();
}

void StoreServer::serve_own_user(net::Tcp::acceptor acceptor) {
    listeners_.push_back(std::make_shared<Listener>(
        std::move(acceptor),
        [this](net::Tcp::socket socket) { adopt(std::move(socket), {}); },
        Listener::Callers::own_user));
    listeners_.back()->start();
}

void StoreServer::adopt(net::Tcp::socket socket, std::string first_bytes) {
    net::prepare(socket);
    auto peer = net::peer_name(socket);
    add(std::move(socket), first_bytes, std::move(peer));
}

void StoreServer::adopt_as(net::Tcp::socket socket, std::string peer) {
    add(std::move(socket), {}, std::move(peer));
}

void StoreServer::add(net::Tcp::socket socket, const std::string& first_bytes, std::string peer) {
    const ConnectionId id{next_id_++};
    auto connection =
        std::make_shared<StoreConnection>(*this, id, std::move(socket), std::move(peer));
    ++counters_.accepted;
    connections_.emplace(id.value, connection);
    connection->start(first_bytes);
}

void StoreServer::drain(Duration timeout, std::function<void()> done) {
    close_listeners();
    drained_ = std::move(done);
    drain_timer_.expires_after(timeout);
    wait_for_drain();
    const auto connections = connections_;
    for (const auto& [id, connection] : connections)
        connection->finish();
    end_drain_if_empty();
}

void StoreServer::wait_for_drain() {
    drain_timer_.async_wait([this, alive = std::weak_ptr{alive_}](const error_code& ec) {
        if (ec || alive.expired() || !drained_) return;
        stop();
        std::exchange(drained_, nullptr)();
    });
}

void StoreServer::end_drain_if_empty() {
    if (!drained_ || !connections_.empty()) return;
    drain_timer_.expires_after(Duration::zero());
    wait_for_drain();
}

void StoreServer::stop() {
    close_listeners();
    const auto connections = std::exchange(connections_, {});
    for (const auto& [id, connection] : connections)
        connection->abandon();
    to_flush_.clear();
    held_bytes_ = 0;
    unread_timer_.cancel();
    wait_timer_.cancel();
}

void StoreServer::close_listeners() {
    for (const auto& listener : std::exchange(listeners_, {}))
        listener->close();
}

StoreServer::Counters StoreServer::counters() const {
    auto counters = counters_;
    counters.refused = rejections_.count();
    counters.open = connections_.size();
    counters.keys = driver_.machine().key_count();
    counters.waits = driver_.machine().wait_count();
    counters.data_bytes = driver_.machine().data_bytes();
    counters.client_bytes = client_bytes();
    return counters;
}

std::vector<store::Waiters::Waiting> StoreServer::waits(std::size_t longest) const {
    return driver_.machine().waits(longest);
}

StoreSurvey StoreServer::survey() const {
    const auto now = counters();
    StoreSurvey survey{
        now.requests,
        now.closed,
        now.open,
        now.keys,
        now.waits,
        now.data_bytes,
        now.client_bytes,
        {}};
    for (const auto& wait : waits(limits::max_status_waits))
        survey.longest.push_back(
            {wait.first_missing.substr(0, limits::max_name_bytes),
             wait.missing_count - 1,
             peer_of(wait.client),
             in_seconds(driver_.now() - wait.since)});
    return survey;
}

std::string StoreServer::peer_of(ConnectionId connection) const {
    const auto place = connections_.find(connection.value);
    return place == connections_.end() ? std::string{} : place->second->peer();
}

void StoreServer::received(store::Store::Event&& event) {
    ++counters_.requests;
    const auto& [from, request] = std::get<store::Store::Received>(event);
    if (wait_watch_ && std::holds_alternative<wire::CancelWait>(request)) cancels_wait(from);
    driver_.post(std::move(event));
}

void StoreServer::refused(
    const StoreConnection& connection, const Failure& failure, std::string_view bytes) {
    if (!rejections_.add(connection.peer())) return;
    log::warning(
        "store.refused",
        {{"peer", connection.peer()},
         {"reason", failure.describe()},
         {"bytes", wire::in_quotes(bytes, most_logged_bytes)}});
}

void StoreServer::closed(ConnectionId connection) {
    connections_.erase(connection.value);
    driver_.post(store::Store::Disconnected{connection});
    end_drain_if_empty();
}

void StoreServer::begin_batch() {
    is_in_batch_ = true;
    driver_.begin_batch();
}

void StoreServer::end_batch() {
    is_in_batch_ = false;
    driver_.end_batch();
    flush();
}

/// Sends replies that were not caused by a request in a batch, but by the end of a reservation or a
/// disconnection.
void StoreServer::flush_soon() {
    if (is_in_batch_ || std::exchange(will_flush_, true)) return;
    boost::asio::post(executor(), [this, alive = std::weak_ptr{alive_}] {
        if (alive.expired()) return;
        will_flush_ = false;
        flush();
    });
}

void StoreServer::flush() {
    // Writing can close a connection, which can wake others, so the list may grow meanwhile.
    for (std::size_t i = 0; i < to_flush_.size(); ++i) {
        const auto connection = std::move(to_flush_[i]);
        try {
            connection->write();
        } catch (const std::bad_alloc&) {
            close_without_memory(*connection, "no memory for its replies");
        }
    }
    to_flush_.clear();
    keep_within_bound();
}

void StoreServer::keep_within_bound() {
    while (client_bytes() > bounds_.client_bytes) {
        const auto& store = driver_.machine();
        std::size_t most = 0;
        std::shared_ptr<StoreConnection> biggest;
        for (const auto& [id, connection] : connections_) {
            const auto bytes = connection->held_bytes() + store.wait_bytes({id});
            if (bytes <= most) continue;
            most = bytes;
            biggest = connection;
        }
        if (!biggest) return;
        close_over_bound(
            *biggest,
            "all clients together hold " + std::to_string(client_bytes()) +
                " bytes of incomplete requests, waits and unread replies, more than " +
                std::to_string(bounds_.client_bytes) + "; this one holds most of it, " +
                std::to_string(most));
    }
}

Instant StoreServer::watch_unread() {
    if (is_watching_unread_) return driver_.now();
    unread_timer_.expires_after(bounds_.unread_reply_timeout / 4);
    unread_timer_.async_wait([this, alive = std::weak_ptr{alive_}](const error_code& ec) {
        if (alive.expired()) return;
        is_watching_unread_ = false;
        if (!ec) close_unread();
    });
    is_watching_unread_ = true;
    return driver_.now();
}

void StoreServer::close_unread() {
    std::vector<std::shared_ptr<StoreConnection>> unread;
    for (const auto& [id, connection] : connections_)
        if (connection->unread_since()) unread.push_back(connection);
    for (const auto& connection : unread) {
        const auto since = connection->unread_since();
        if (!since || driver_.now() - *since < bounds_.unread_reply_timeout) continue;
        close_over_bound(
            *connection,
            "no reply was read for " +
                std::to_string(static_cast<int>(in_seconds(bounds_.unread_reply_timeout))) + " s");
    }
    if (!unread.empty()) watch_unread();
}

void StoreServer::watch_waits(OnWait on_wait, WaitWatch::Limits limits) {
    on_wait_ = std::move(on_wait);
    wait_watch_.emplace(limits);
    look_at_waits_later();
}

void StoreServer::look_at_waits_later() {
    wait_timer_.expires_after(wait_watch_->limits().check_interval);
    wait_timer_.async_wait([this, alive = std::weak_ptr{alive_}](const error_code& ec) {
        if (ec || alive.expired()) return;
        look_at_waits();
        look_at_waits_later();
    });
}

void StoreServer::look_at_waits() {
    const auto now = driver_.now();
    const auto longest = waits(1);
    const auto step =
        longest.empty()
            ? wait_watch_->look(std::nullopt, now)
            : wait_watch_->look(
                  WaitWatch::Longest{longest.front().first_missing, longest.front().since}, now);
    switch (step) {
        case WaitWatch::Step::none: return;
        case WaitWatch::Step::report: return on_wait_(wait_like_that_of(longest.front().client));
        case WaitWatch::Step::report_end: return on_wait_(control::StoreWait{});
    }
}

/// Called before the store handles the cancellation, since the wait no longer exists afterwards.
void StoreServer::cancels_wait(ConnectionId client) {
    const auto began_at = driver_.machine().wait_began_at(client);
    const auto now = driver_.now();
    if (!began_at || !wait_watch_->cancelled(now - *began_at, now)) return;
    auto wait = wait_like_that_of(client);
    wait.has_timed_out = true;
    on_wait_(std::move(wait));
}

control::StoreWait StoreServer::wait_like_that_of(ConnectionId client) const {
    const auto found = driver_.machine().waits_like_that_of(client, limits::max_reported_sockets);
    control::StoreWait wait;
    if (!found) return wait;
    wait.key = found->wait.first_missing.substr(0, limits::max_name_bytes);
    wait.more_keys = found->wait.missing_count - 1;
    wait.age = driver_.now() - found->wait.since;
    wait.client_count = found->client_count;
    for (const auto each : found->clients)
        wait.sockets.push_back(peer_of(each));
    return wait;
}

void StoreServer::close_over_bound(StoreConnection& connection, const std::string& reason) {
    ++counters_.closed;
    if (closings_.add(connection.peer()))
        log::warning(
            "store.closed_connection",
            {{"store", connection.local()}, {"peer", connection.peer()}, {"reason", reason}});
    connection.close();
}

void StoreServer::close_without_memory(StoreConnection& connection, const std::string& reason) {
    close_over_bound(connection, reason);
    keep_memory_reserve();
}

void StoreServer::perform(store::Store::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const store::Store::Reply& it) {
                const auto place = connections_.find(it.to.value);
                if (place == connections_.end()) return;
                try {
                    if (!place->second->enqueue(it.reply)) return;
                    to_flush_.push_back(place->second);
                    flush_soon();
                } catch (const std::bad_alloc&) {
                    // Only this connection ends: the effects for other clients still follow.
                    const auto connection = place->second;
                    close_without_memory(*connection, "no memory for its replies");
                }
            },
            [&](const store::Store::CloseConnection& it) {
                const auto place = connections_.find(it.connection.value);
                if (place == connections_.end()) return;
                const auto connection = place->second;
                connection->write();
                close_over_bound(*connection, it.reason);
            },
        },
        effect);
}

}  // namespace ddprun::server
