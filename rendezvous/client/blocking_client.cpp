// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/blocking_client.hpp"

#include "rendezvous/base/backoff.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/client/client_error.hpp"
#include "rendezvous/wire/error.hpp"
#include "rendezvous/wire/text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace ddprun::client {
namespace {

using namespace std::chrono_literals;

constexpr Duration first_pause = 20ms;
constexpr Duration longest_pause = 1s;

/// The moment when a call must end; the maximum when the timeout is so long that the sum overflows.
Instant deadline_after(Duration timeout) {
    const auto now = Clock::now();
    const auto longest = Instant::max() - now;
    return now + std::clamp(timeout, Duration::zero(), longest);
}

}  // namespace

Result<BlockingClient> BlockingClient::connect(Endpoint endpoint, Duration timeout) {
    const auto deadline = deadline_after(timeout);
    auto random = seeded_by_the_system();
    Backoff backoff(first_pause, longest_pause);
    for (;;) {
        auto client = try_addresses(endpoint, deadline);
        if (client) return client;
        // No retry: a peer that uses another protocol now will also do so later.
        if (client.error().code == Error::not_a_store) return client;
        const auto pause = backoff.next(random);
        if (Clock::now() + pause >= deadline) {
            auto failure = std::move(client).error();
            failure.context = "store at " + endpoint.to_string() + ", tried for " +
                              seconds_text(timeout) + ": " + failure.context;
            return failure;
        }
        std::this_thread::sleep_for(pause);
    }
}

Result<BlockingClient> BlockingClient::try_addresses(const Endpoint& endpoint, Instant deadline) {
    const auto addresses = BlockingSocket::resolve(endpoint);
    if (!addresses) return addresses.error();
    Failure last{Error::name_not_resolved, "resolve " + endpoint.host};
    for (const auto& address : *addresses) {
        auto client = try_address(address, deadline);
        if (client) return client;
        last = std::move(client).error();
        if (last.code == Error::not_a_store) break;
    }
    return last;
}

/// PyTorch's servers before 2.5 close the connection on PING, so a second attempt is made without
/// PING.
Result<BlockingClient> BlockingClient::try_address(
    const BlockingSocket::Address& address, Instant deadline) {
    auto client = try_greeting(address, ClientSession::Greeting::validate_and_ping, deadline);
    if (client || client.error().code != Error::server_closed) return client;
    return try_greeting(address, ClientSession::Greeting::validate, deadline);
}

Result<BlockingClient> BlockingClient::try_greeting(
    const BlockingSocket::Address& address, ClientSession::Greeting greeting, Instant deadline) {
    const auto now = Clock::now();
    auto socket =
        BlockingSocket::connect(address, std::min(deadline, now + limits::connect_attempt_timeout));
    if (!socket) return socket.error();

    BlockingClient client(address.to_endpoint(), std::move(*socket), greeting);
    const auto answer_by = std::min(deadline, now + limits::handshake_timeout);
    // Without a PING another harmless request shows whether a store is there.
    if (client.session_.is_greeted()) client.session_.send(wire::Check{{"init/"}});
    if (auto sent = client.flush(answer_by); !sent) return sent.error();
    while (!client.session_.is_greeted() || client.session_.awaited_count() > 0) {
        const auto reply = client.receive(answer_by);
        if (!reply) return reply.error();
        if (!*reply && !client.session_.is_greeted()) return client.fail(Error::no_answer, "greet");
    }
    return client;
}

BlockingClient::BlockingClient(
    Endpoint server, BlockingSocket socket, ClientSession::Greeting greeting)
    : server_(std::move(server)),
      socket_(std::move(socket)),
      session_(greeting, static_cast<std::uint32_t>(::getpid())) {}

Result<> BlockingClient::send(const wire::Request& request, Duration timeout) {
    return send_until(request, deadline_after(timeout));
}

Result<wire::Reply> BlockingClient::ask_any(const wire::Request& request, Duration timeout) {
    const auto deadline = deadline_after(timeout);
    if (auto sent = send_until(request, deadline); !sent) return sent.error();
    auto reply = receive(deadline);
    if (!reply) return reply.error();
    if (!*reply) {
        const auto what = wire::describe(request) + ", waited " + seconds_text(timeout);
        return fail(Error::no_answer, what);
    }
    return std::move(**reply);
}

Result<bool> BlockingClient::wait(const wire::Request& request, Duration timeout) {
    const auto deadline = deadline_after(timeout);
    // The timeout does not apply to sending: even with a timeout of 0 the request is sent.
    if (auto sent = send_until(request, deadline_after(limits::handshake_timeout)); !sent)
        return sent.error();
    const auto reply = receive(deadline);
    if (!reply) return reply.error();
    if (*reply) return true;
    if (auto cancelled = cancel_wait(); !cancelled) return cancelled.error();
    return false;
}

/// The end of the wait and its cancellation may cross on the wire, so both answers are read. A wait
/// that ends after its deadline has timed out.
Result<> BlockingClient::cancel_wait() {
    const auto deadline = deadline_after(limits::handshake_timeout);
    if (auto sent = send_until(wire::CancelWait{}, deadline); !sent) return sent;
    while (session_.awaited_count() > 0) {
        const auto reply = receive(deadline);
        if (!reply) return reply.error();
        if (!*reply) return fail(Error::no_answer, "CANCEL_WAIT");
    }
    return {};
}

Result<> BlockingClient::send_until(const wire::Request& request, Instant deadline) {
    if (failure_) return *failure_;
    session_.send(request);
    return flush(deadline);
}

Result<> BlockingClient::flush(Instant deadline) {
    const auto sent = socket_.send(session_.output(), deadline);
    if (!sent) return fail(sent.error().code, sent.error().context);
    session_.sent(session_.output().size());
    return {};
}

Result<std::optional<wire::Reply>> BlockingClient::receive(Instant deadline) {
    if (failure_) return *failure_;
    for (;;) {
        auto reply = session_.next();
        if (!reply) return fail(Error::not_a_store, reply.error().describe());
        if (*reply) return reply;
        if (session_.awaited_count() == 0) return reply;
        const auto bytes = socket_.receive(deadline);
        if (!bytes) return fail(bytes.error().code, bytes.error().context);
        if (bytes->empty()) return std::optional<wire::Reply>{};
        session_.receive(*bytes);
    }
}

Failure BlockingClient::fail(error_code code, const std::string& what) {
    failure_ = Failure{code, "store at " + server_.to_string() + (what.empty() ? "" : ": " + what)};
    return *failure_;
}

}  // namespace ddprun::client
