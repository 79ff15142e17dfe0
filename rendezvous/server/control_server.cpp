// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/control_server.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/memory_reserve.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/server/unproved_callers.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <boost/asio/post.hpp>

#include <new>
#include <utility>
#include <vector>

namespace ddprun::server {
ControlServer::ControlServer(
    boost::asio::io_context& io,
    coordinator::Coordinator::Options options,
    Duration handshake_timeout,
    Hooks hooks,
    std::size_t max_held_bytes,
    SecretsOrigin secrets)
    : io_(io),
      options_(std::move(options)),
      handshake_timeout_(handshake_timeout),
      hooks_(std::move(hooks)),
      secrets_(std::move(secrets)),
      max_held_bytes_(max_held_bytes) {
    keep_memory_reserve();
    if (!options_.hosted_run_id) witness_.emplace(unguessable_nonce());
    begin();
}

void ControlServer::begin() {
    driver_.emplace(
        io_,
        "coordinator",
        Machine(options_),
        [this](Machine::Effect& effect) { perform(effect); },
        [this] { settled(); });
}

void ControlServer::adopt(net::Tcp::socket socket, std::string first_bytes) {
    adopt_as(std::move(socket), std::move(first_bytes), {std::nullopt, has_secret()});
}

void ControlServer::adopt_encrypted(net::Tcp::socket socket, std::string first_bytes) {
    // The key found last is the one that the session uses: OpenSSL looks up the next identity only
    // when it has rejected the one before.
    auto tenant = std::make_shared<std::string>();
    auto session = tls::Session::for_server(
        [this, tenant](std::string_view identity) -> std::optional<tls::Key> {
            auto found = secrets_.find_control_key(identity);
            if (!found) return std::nullopt;
            *tenant = std::move(found->tenant);
            return std::move(found->key);
        });
    adopt_as(
        std::move(socket), std::move(first_bytes), {std::move(session), false, std::move(tenant)});
}

/// If memory runs out, no state of the caller is kept, and the exception ends the handling of this
/// caller.
void ControlServer::adopt_as(
    net::Tcp::socket socket, std::string first_bytes, ControlAccess access) {
    const auto connection =
        std::make_shared<ControlConnection>(std::move(socket), std::move(access));
    const ConnectionId id{next_connection_++};
    if (has_secret() && !admit(id, *connection))
        return hooks_.on_rejected(connection->peer(), too_many_unproved);
    try {
        connections_.emplace(id, connection);
    } catch (const std::bad_alloc&) {
        handshakes_.remove(id);
        throw;
    }
    try {
        connection->start(
            std::move(first_bytes),
            handshake_timeout_,
            {[this, id] { greeted(id); },
             [this, id](control::AgentMessage message) { received(id, std::move(message)); },
             [this, id](const std::string& reason) { ended(id, reason); },
             [this](std::size_t before, std::size_t now) { holds(before, now); },
             [this, &connection = *connection] { close_without_memory(connection); },
             [this, id] { handshakes_.remove(id); },
             [this, id](std::string_view request) { return vote(id, request); }});
    } catch (const std::bad_alloc&) {
        close_without_memory(*connection);
    }
}

bool ControlServer::admit(ConnectionId id, const ControlConnection& connection) {
    const auto& socket = connection.socket();
    const auto surplus =
        handshakes_.add(id, {net::peer_network(socket), net::peer_address(socket)}, now());
    if (surplus == id) return false;
    const auto found = surplus ? connections_.find(*surplus) : connections_.end();
    if (found != connections_.end()) found->second->abort(too_many_unproved);
    return true;
}

void ControlServer::post(Machine::Event event) {
    try {
        driver_->post(std::move(event));
    } catch (const std::bad_alloc&) {
        start_over();
    }
}

void ControlServer::start_over() {
    log::error("rendezvous.out_of_memory");
    for (const auto& [id, connection] : connections_)
        connection->abort("the server had no memory");
    const auto epoch = driver_->machine().epoch();
    abandoned_epoch_ = epoch;
    begin();
    if (options_.is_elected) hooks_.on_stepped_down({"out of memory", epoch, 0, false});
    // Set so that the server is not reported as idle: its jobs continue when their agents are back.
    is_idle_ = true;
    keep_memory_reserve();
}

void ControlServer::close_without_memory(ControlConnection& connection) {
    connection.abort_over_bound("no memory");
    keep_memory_reserve();
}

void ControlServer::holds(std::size_t before, std::size_t now) {
    held_bytes_ += now - before;
    if (now > before) keep_within_bound();
}

/// Closes connections until the total is within its bound: of the tenant that holds most the one
/// that holds most.
void ControlServer::keep_within_bound() {
    while (held_bytes_ > max_held_bytes_) {
        std::vector<Holder> holders;
        for (const auto& [id, connection] : connections_)
            holders.push_back({id, of_tenants_.tenant_of(id), connection->held_bytes()});
        const auto biggest = biggest_of_biggest(holders);
        if (!biggest) return;
        auto& connection = *connections_.at(*biggest);
        const auto& tenant = of_tenants_.tenant_of(*biggest);
        connection.abort_over_bound(
            "all agents together hold " + std::to_string(held_bytes_) +
            " bytes of unsent and incomplete messages, more than " +
            std::to_string(max_held_bytes_) + "; this one holds most of " +
            (tenant.empty() ? "it" : "what tenant '" + tenant + "' holds") + ", " +
            std::to_string(connection.held_bytes()));
    }
}

void ControlServer::interrupt(int signal, std::string reason, std::optional<Duration> grace) {
    {
        const std::lock_guard lock(interruption_mutex_);
        interruption_ = Machine::Interrupted{signal, std::move(reason), grace};
    }
    boost::asio::post(io_, [this] { take_interruption(); });
}

void ControlServer::take_interruption() {
    std::optional<Machine::Interrupted> taken;
    {
        const std::lock_guard lock(interruption_mutex_);
        taken.swap(interruption_);
    }
    if (taken) post(std::move(*taken));
}

void ControlServer::report_if_idle() const {
    if (driver_->machine().is_idle() && hooks_.on_idle) hooks_.on_idle();
}

void ControlServer::drain(std::function<void()> done) {
    drained_ = std::move(done);
    for (const auto& [id, connection] : connections_)
        connection->finish("the server ends");
    end_drain_if_empty();
}

void ControlServer::end_drain_if_empty() {
    if (connections_.empty())
        if (const auto done = std::exchange(drained_, nullptr)) done();
}

std::uint64_t ControlServer::add_jobs(
    JobPage& page, const coordinator::Scope& scope, std::uint64_t after) const {
    const auto query = page.query();
    const auto turn = driver_->machine().status_turn(
        driver_->now(),
        {scope, query.job, query.first_node, after, limits::page_turn_jobs, query.first_round});
    for (const auto& job : turn.jobs)
        page.add(job);
    return turn.last;
}

void ControlServer::greeted(ConnectionId id) {
    auto& connection = *connections_.at(id);
    if (auto full = of_tenants_.add(id, connection.tenant()); !full.empty())
        return connection.abort_over_bound(std::move(full));
    post(Machine::Connected{
        id,
        net::peer_address(connection.socket()),
        connection.peer(),
        net::local_address(connection.socket()),
        net::peer_network(connection.socket()),
        unguessable_nonce(),
        connection.tenant(),
        connection.has_proved_secret()});
}

/// Without a lease (a job of one node) only TCP detects that the node's host is gone, so the
/// connection is probed soon. With a lease, probes must not end a connection earlier than the
/// lease; the usual probes of all connections begin much later.
void ControlServer::received(ConnectionId id, control::AgentMessage message) {
    const auto* join = std::get_if<control::Join>(&message);
    if (const auto* resume = std::get_if<control::Resume>(&message)) join = &resume->join;
    const auto found = connections_.find(id);
    if (found != connections_.end() && join && join->nodes.max == 1 && join->nodes.spares == 0)
        found->second->notice_lost_peer();
    take_interruption();
    post(Machine::Received{id, std::move(message)});
}

/// The line of the answer; empty: the request is not valid.
std::string ControlServer::vote(ConnectionId id, std::string_view request) {
    if (!witness_) return std::string{voters::no_voter_line};
    const auto& connection = *connections_.at(id);
    auto reply = witness_->answer(connection.tenant(), request, now());
    if (!reply.new_job.empty())
        log_of_caller(
            other_lines_,
            log::Level::info,
            "rendezvous.witnessed",
            {{"job", reply.new_job}, {"peer", connection.peer()}});
    return std::move(reply.line);
}

void ControlServer::ended(ConnectionId id, const std::string& reason) {
    handshakes_.remove(id);
    of_tenants_.remove(id);
    const auto connection = connections_.extract(id);
    const auto& peer = connection.mapped()->peer();
    log::debug("rendezvous.agent_disconnected", {{"peer", peer}, {"reason", reason}});
    if (drained_) return end_drain_if_empty();
    using Begun = ControlConnection::Begun;
    const auto begun = connection.mapped()->begun();
    if (begun == Begun::nothing || connection.mapped()->was_over_bound())
        hooks_.on_rejected(peer, reason);
    if (begun != Begun::greeting) return;
    take_interruption();
    post(Machine::Disconnected{id});
}

void ControlServer::perform(Machine::Effect& effect) {
    const auto connection_of = [this](ConnectionId id) {
        const auto found = connections_.find(id);
        return found == connections_.end() ? nullptr : found->second;
    };
    std::visit(
        Overloaded{
            [&](const Machine::Send& send) {
                notice_round(send.message);
                notice_refusal(send.message);
                const auto connection = connection_of(send.connection);
                if (connection == nullptr) return;
                try {
                    connection->send(encoded(send.message));
                } catch (const std::bad_alloc&) {
                    close_without_memory(*connection);
                }
            },
            [&](Machine::Close& close) {
                if (const auto connection = connection_of(close.connection))
                    connection->finish(std::move(close.reason));
            },
            [&](const Machine::Changed& changed) {
                log_of_caller(
                    changed.is_new_state ? state_lines_ : other_lines_,
                    log::Level::info,
                    "rendezvous.job_changed",
                    {{"job", changed.run_id},
                     {"state", changed.state},
                     {"reason", changed.reason}});
            },
            [&](const Machine::Waiting& waiting) {
                log_of_caller(
                    other_lines_,
                    log::Level::warning,
                    "store.waiting",
                    {{"job", waiting.run_id},
                     {"round", waiting.round},
                     {"key", waiting.key},
                     {"ranks", waiting.ranks},
                     {"since_s", static_cast<int>(in_seconds(waiting.age))},
                     {"missing",
                      waiting.missing.empty() ? "no rank: all of them wait" : waiting.missing}});
            },
            [&](const Machine::Hung& hung) {
                // Level info is enough, since the nodes show the hang themselves.
                log_of_caller(
                    other_lines_,
                    log::Level::info,
                    "job.hung",
                    {{"job", hung.run_id},
                     {"round", hung.round},
                     {"reason", hung.reason},
                     {"ranks", short_list(hung.rows, {limits::max_hang_rows, "; "})}});
            },
            [&](const Machine::Commanded& commanded) {
                const bool is_done = commanded.outcome == control::JobCommandAnswer::Outcome::done;
                log_of_caller(
                    other_lines_,
                    log::Level::warning,
                    is_done ? "command.obeyed" : "command.refused",
                    {{"job", commanded.run_id},
                     {"command", commanded.command},
                     {"by", commanded.by},
                     {"outcome", control::name_of(commanded.outcome)},
                     {"reason", commanded.text}});
            },
            [&](const Machine::Record& record) { hooks_.on_record(record); },
            [&](const Machine::ChangeVoters& change) { hooks_.on_change_voters(change); },
            [&](const Machine::SteppedDown& stepped_down) { hooks_.on_stepped_down(stepped_down); },
            // Not logged here: the driver logs every effect at level debug, which is enough for
            // this one.
            [](const Machine::Ranked&) {},
        },
        effect);
}

void ControlServer::notice_round(const control::ServerMessage& message) {
    const auto* assignment = std::get_if<control::Assignment>(&message);
    if (assignment == nullptr || assignment->round == std::exchange(round_, assignment->round))
        return;
    if (hooks_.on_round) hooks_.on_round();
}

/// Logs a final refusal, so that a place that two nodes claim is visible at the server too. A
/// refusal that may be retried is not logged.
void ControlServer::notice_refusal(const control::ServerMessage& message) {
    const auto* refused = std::get_if<control::Refused>(&message);
    if (refused != nullptr && !refused->retry)
        log_of_caller(
            other_lines_, log::Level::warning, "rendezvous.refused", {{"reason", refused->reason}});
}

void ControlServer::log_of_caller(
    CallerLines& lines, log::Level level, std::string_view event, log::Fields fields) {
    if (!log::is_enabled(level) || !lines.take(now())) return;
    if (const auto count = lines.take_left_out(); count > 0)
        log::warning("rendezvous.lines_left_out", {{"count", count}});
    log::write(level, event, fields);
}

const ControlConnection::Frame& ControlServer::encoded(const control::ServerMessage& message) {
    if (encoded_message_ != message) {
        encoded_message_.reset();
        encoded_frame_ = std::make_shared<const std::string>(control::encode(message));
        encoded_message_ = message;
    }
    return encoded_frame_;
}

void ControlServer::settled() {
    const bool was_idle = std::exchange(is_idle_, driver_->machine().is_idle());
    if (is_idle_ && !was_idle && hooks_.on_idle) hooks_.on_idle();
}

}  // namespace ddprun::server
