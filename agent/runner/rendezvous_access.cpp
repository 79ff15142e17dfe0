// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/rendezvous_access.hpp"

#include "agent/runner/name_lookup.hpp"
#include "agent/runner/node_address.hpp"
#include "agent/runner/round_stores.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/control/greeting.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/interfaces.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr int port_attempts = 64;
constexpr Duration pause_between_places = std::chrono::milliseconds{100};

/// The address at which this node reaches the server that it has just begun to host.
Endpoint own_end(const server::ListenOn& on, std::uint16_t port) {
    const bool is_one_address = on.scope == server::ListenOn::Scope::address;
    return {is_one_address ? on.address : "127.0.0.1", port};
}

}  // namespace

RendezvousAccess::RendezvousAccess(
    boost::asio::io_context& io, const AgentConfig& config, Peers peers, Hooks hooks)
    : io_(io),
      config_(config),
      peers_(std::move(peers)),
      hooks_(std::move(hooks)),
      voters_retry_(io),
      places_(config.rendezvous.places()),
      endpoint_claim_(
          io,
          [this](Endpoint place, client::CoordinatorClient::Hooks given) {
              return make_client(std::move(place), std::move(given));
          },
          [this] { return claim(); }) {
    if (config.secret) secrets_.emplace(*config.secret);
    const auto* voters = config_.rendezvous.voters();
    if (voters != nullptr && voters->witness)
        witness_.emplace(
            io_,
            peers_.calls,
            *voters->witness,
            WitnessFinder::Hooks{
                [this] { return led_record(); },
                [this](std::optional<control::VoterPlace> seen) {
                    if (server_) server_->witness_changed(std::move(seen));
                }});
    if (!config_.rendezvous.has_outside_engine()) return;
    const auto candidate = make_nonce(peers_.random).to_string();
    election_ = std::make_unique<Election>(
        io_,
        Election::outside_engine(io_, *config_.rendezvous.election, config_.join.run_id, candidate),
        candidate,
        election_hooks());
}

RendezvousAccess::~RendezvousAccess() {
    if (!server_) return;
    // A draining server waits until its agents have left, including this agent. The links must be
    // closed here, because the loop that they run on has ended.
    links_.clear();
    server_->drain();
}

void RendezvousAccess::connect(int link, bool may_host, Duration unanswered_for) {
    links_.emplace(link, nullptr);
    if (elects(unanswered_for)) return seek(link, unanswered_for);
    if (places_.is_first() && is_record_lost_) return lead_at_endpoint(link, unanswered_for);
    // Elsewhere a server of a voter only knows what the voter knows.
    const bool is_server = voters_ == nullptr || (places_.is_first() && !places_.is_asking());
    if (server_ && is_server) return open(link, own_server_);
    if (!may_host || (server_ && places_.own())) return connect_to_places(link, unanswered_for);
    boost::asio::co_spawn(io_, attempt(link, unanswered_for), rethrow);
}

/// This node has no server that leads, and knows none. If too few of the voters that it knows are
/// left, the job's record may be lost: it is begun again at the first place then. But it may also
/// have other voters by now, which a process at another place can name.
void RendezvousAccess::connect_to_places(int link, Duration unanswered_for) {
    if (places_.may_begin_record() || (places_.is_first() && is_record_lost_))
        return lead_at_endpoint(link, unanswered_for);
    open(link, places_.next());
}

server::PlacementFacts RendezvousAccess::facts_of(std::size_t place) const {
    const auto& plan = config_.rendezvous;
    server::PlacementFacts facts;
    facts.endpoint = places_.all()[place];
    facts.max_nodes = config_.join.nodes.max;
    if (place != 0) return facts;
    facts.is_static = plan.is_static;
    facts.is_host = plan.is_host;
    // In a list it is known which process begins the job.
    if (places_.all().size() == 1) facts.node_rank = config_.join.node_rank;
    return facts;
}

boost::asio::awaitable<void> RendezvousAccess::attempt(int link, Duration unanswered_for) {
    const auto& plan = config_.rendezvous;
    const bool is_settled_without = plan.is_host || plan.endpoint.port == 0;
    std::vector<NameLookup> lookups;
    if (!is_settled_without || plan.has_voters())
        for (const auto& place : places_.all())
            lookups.emplace_back(io_, place);
    std::vector<std::vector<std::string>> resolved(places_.all().size());
    for (std::size_t i = 0; i < lookups.size(); ++i)
        resolved[i] = co_await lookups[i].addresses();
    const auto own = server::interface_addresses();
    if (!links_.contains(link)) co_return;

    // The server must know its voter when it starts.
    if (plan.has_voters() && voters_ == nullptr) {
        const auto some = std::find_if(
            resolved.begin(), resolved.end(), [](const auto& one) { return !one.empty(); });
        const auto way =
            some == resolved.end() ? std::string{} : own_address_towards(some->front());
        begin_voting(address_for_others(way.empty() ? "127.0.0.1" : way, own));
    }
    for (std::size_t i = 0; i < resolved.size(); ++i) {
        auto facts = facts_of(i);
        facts.resolved = std::move(resolved[i]);
        facts.own = own;
        facts.unanswered_for = unanswered_for;
        const auto hosting = settle(std::move(facts));
        if (const auto* refuse = std::get_if<server::Refuse>(&hosting)) {
            links_.erase(link);
            hooks_.on_event(Agent::ConnectRefused{refuse->reason});
            co_return;
        }
        if (std::holds_alternative<server::Connect>(hosting)) continue;
        places_.listen_at(i);
        if (voters_ != nullptr) break;
        hooks_.on_event(Agent::HostingChanged{true});
        open(link, own_server_);
        co_return;
    }
    connect_to_places(link, unanswered_for);
}

/// By the record of the job, or by a new one if it has none or has lost it.
void RendezvousAccess::lead_at_endpoint(int link, Duration unanswered_for) {
    places_.end_asking();
    if (is_record_lost_) {
        lost_record_ = voters_->shared_record();
        renew_voter("too few of the nodes that voted are left");
    }
    voters_->create(make_nonce(peers_.random));
    seek(link, unanswered_for);
}

server::Placement RendezvousAccess::settle(server::PlacementFacts facts) {
    auto hosting = server::decide(facts);
    // A taken port changes the decision: to another port, another role or a refusal.
    for (int tries = 0; tries < 2; ++tries) {
        const auto* listen = std::get_if<server::Listen>(&hosting);
        if (listen == nullptr) break;
        const auto failed = host(*listen);
        if (!failed) break;
        if (failed->code != boost::asio::error::address_in_use)
            return server::Refuse{failed->describe()};
        facts.is_port_in_use = true;
        const auto port = listen->on.port;
        // The search walks through all processes, so it is done once, and again only for the text
        // of a refusal.
        if (!port_holder_) port_holder_ = net::listener_on_port(port);
        facts.held_by = *port_holder_;
        hosting = server::decide(facts);
        if (std::holds_alternative<server::Connect>(hosting)) warn_of_port_holder(facts);
        if (!std::holds_alternative<server::Refuse>(hosting)) continue;
        facts.held_by = net::listener_on_port(port);
        hosting = server::decide(facts);
    }
    const auto* listen = std::get_if<server::Listen>(&hosting);
    if (server_ && listen != nullptr && facts.is_port_in_use)
        log::warning("rendezvous.moved", {{"port", own_server_.port}, {"reason", listen->reason}});
    return hosting;
}

/// Warns if the process that holds the port is known and is no ddprun: it is unlikely to be the
/// job's server.
void RendezvousAccess::warn_of_port_holder(const server::PlacementFacts& facts) {
    if (facts.held_by.empty() || facts.is_held_by_ddprun()) return;
    if (std::exchange(has_warned_of_port_holder_, true)) return;
    log::warning(
        "rendezvous.port_taken",
        {{"port", facts.endpoint.port},
         {"holder", facts.held_by},
         {"effect",
          "this node cannot serve there and takes the holder for the job's server; stop it or "
          "choose another port on all nodes"}});
}

/// Port 0 means any free port in --port-range, the range of all listeners of this node.
std::optional<Failure> RendezvousAccess::host(const server::Listen& listen) {
    if (listen.on.port != 0) return host_at(listen.on.port, listen);
    auto random = seeded_by_the_system();
    std::uniform_int_distribution<int> any_port(config_.first_port, config_.last_port);
    std::optional<Failure> failed;
    for (int attempt = 0; attempt < port_attempts; ++attempt) {
        failed = host_at(static_cast<std::uint16_t>(any_port(random)), listen);
        if (!failed || failed->code != boost::asio::error::address_in_use) break;
    }
    return failed;
}

std::optional<Failure> RendezvousAccess::host_at(
    std::uint16_t at_port, const server::Listen& listen) {
    server::RendezvousServer::Options options;
    options.listen = listen.on;
    options.listen.port = at_port;
    options.hosted_run_id = config_.join.run_id;
    options.is_elected = election_ != nullptr;
    if (voters_ != nullptr) options.voter = voters_->own_voter();
    options.on_change_voters = [this](const coordinator::ChangeVoters& change) {
        boost::asio::post(io_, [this, change] { change_voters(change); });
    };
    options.on_stepped_down = [this](const coordinator::SteppedDown& stepped_down) {
        boost::asio::post(io_, [this, stepped_down] {
            // A node that leaves an ended job has just led until its end.
            const bool is_expected = leaving_ && *leaving_;
            log::write(
                is_expected ? log::Level::debug : log::Level::warning,
                "rendezvous.stepped_down",
                {{"reason", stepped_down.reason}});
            note_succession();
            if (stepped_down.claimed) return follow(*stepped_down.claimed);
            // If a job has begun meanwhile, its keys are still needed.
            if (leaving_) return election_->leave(*leaving_ && stepped_down.is_idle);
            election_->step_down(stepped_down.epoch, stepped_down.known_epoch);
        });
    };
    options.on_record = [this](const coordinator::Record& record) {
        boost::asio::post(io_, [this, record] { election_->record(record); });
    };
    options.has_store_of_round = config_.rendezvous.is_static && !config_.has_members_store();
    options.version = build::version;
    options.on_idle = [this] { boost::asio::post(io_, [this] { hooks_.on_server_idle(); }); };
    options.ask_stores = hooks_.ask_stores;
    options.accepted = config_.accepted;
    if (config_.secret) options.secrets = *config_.secret;
    options.on_store_wait = [this,
                             port = config_.rendezvous.endpoint.port](control::StoreWait wait) {
        boost::asio::post(io_, [this, port, wait = std::move(wait)]() mutable {
            hooks_.on_event(Agent::StoreWaited{port, std::move(wait)});
        });
    };
    auto server = std::make_unique<server::RendezvousServer>(std::move(options));
    const auto port = server->start();
    if (!port) return port.error();
    log::debug("rendezvous.hosted", {{"port", *port}, {"reason", listen.reason}});
    warn_of_no_secret(listen);
    server_ = std::move(server);
    own_listen_ = listen.on;
    own_server_ = own_end(listen.on, *port);
    return std::nullopt;
}

/// On a loopback address the kernel keeps other users out, so no warning is needed.
void RendezvousAccess::warn_of_no_secret(const server::Listen& listen) const {
    using Scope = server::ListenOn::Scope;
    const bool is_on_loopback =
        listen.on.scope == Scope::loopback ||
        (listen.on.scope == Scope::address && is_loopback(listen.on.address));
    if (!config_.warns_of_no_secret || is_on_loopback) return;
    log::warning(
        "security.none",
        {{"effect",
          "every program that reaches this node can join and stop the job and read and write its "
          "stores"},
         {"next_step",
          "--secure or --rdzv-secret-file=FILE on every node keeps them from joining and stopping "
          "it, its stores stay open; --insecure leaves all open without this line"}});
}

// ---- election -----------------------------------------------------------------------------------

/// Whether the election can find the leader. The voters can be gone while another process serves at
/// the endpoint: after a search without success the next attempt is there, unless several voters
/// may still elect a leader. Searches and attempts at the endpoint then take turns. Where this
/// process serves there itself, the voters must have ended: others may only be cut off from here,
/// and have a leader.
bool RendezvousAccess::elects(Duration unanswered_for) {
    if (!election_ || voters_ == nullptr) return election_ != nullptr;
    if (!voters_->known()) return false;
    const bool may_elect = voters_->shared_record() || voters_->is_voter();
    const bool is_late = !may_elect || unanswered_for >= limits::claim_wait;
    if (has_found_none_ && (places_.is_first() ? voters_->is_record_lost() : is_late))
        is_record_lost_ = true;
    return !std::exchange(has_found_none_, false) || !is_record_lost_;
}

/// Notifies the agent when it changes whether another server can follow.
void RendezvousAccess::note_succession() {
    if (voters_ == nullptr) return;
    auto events =
        succession_.update({election_->is_leading(), voters_->shared_record().has_value()});
    for (auto& event : events)
        boost::asio::post(
            io_, [this, event = std::move(event)]() mutable { hooks_.on_event(std::move(event)); });
}

void RendezvousAccess::seek(int link, Duration unanswered_for) {
    sought_ = link;
    if (election_->is_leading()) return open(link, own_server_);
    election_->seek(unanswered_for == Duration{});
}

Election::Hooks RendezvousAccess::election_hooks() {
    return {
        [this](Endpoint leader) { open_sought(std::move(leader)); },
        [this](std::string reason) { fail_sought(std::move(reason)); },
        [this](const std::string& own_address) { return open_candidate(own_address); },
        [this](const witness::LeaderLease::Elected& elected) {
            // Before it welcomes a node.
            if (voters_ != nullptr && voters_->shared_record())
                server_->voters_changed(config_.join.run_id, *voters_->known());
            server_->lead(
                {elected.epoch,
                 elected.until,
                 elected.led_before,
                 elected.ends,
                 election_->own_endpoint(),
                 voters_ != nullptr ? std::optional{voters_->known()->lineage} : std::nullopt});
            is_successor_ = voters_ != nullptr && !elected.ends.empty();
            note_succession();
            open_sought(own_server_);
            endpoint_claim_.start(claimed_places());
            if (witness_) witness_->start();
            boost::asio::post(io_, [this] { hooks_.on_elected(); });
        },
        [this](std::uint64_t epoch, Instant until) {
            server_->lead({epoch, until});
        },
        [this](std::uint64_t number) { server_->recorded(number); },
        [this](std::string reason) {
            server_->depose(std::move(reason));
            note_succession();
        },
        [this] { boost::asio::post(io_, [this] { hooks_.on_released(); }); }};
}

Result<Endpoint> RendezvousAccess::open_candidate(const std::string& own_address) {
    // Nodes that know the job by its endpoint could not find this node's server.
    if (voters_ != nullptr && !server_ && !voters_->is_voter())
        return Failure{system_code(EPERM), "this node does not vote, so it cannot lead"};
    const auto& given = config_.join.addr;
    const bool is_alone = config_.join.nodes.max == 1;
    const auto reached_at = !given.empty() ? given
                            : is_alone
                                ? own_address
                                : address_for_others(own_address, server::interface_addresses());
    if (!server_) {
        const auto local = own_listen_host(config_);
        server::Listen listen{{server::ListenOn::Scope::everywhere, {}, 0}, "elected"};
        if (is_loopback(local))
            listen.on.scope = server::ListenOn::Scope::loopback;
        else if (!local.empty())
            listen.on = {server::ListenOn::Scope::address, local, 0};
        if (auto failed = host(listen)) return *failed;
    }
    return Endpoint{reached_at, own_server_.port};
}

/// The attempt may have been cancelled meanwhile.
void RendezvousAccess::open_sought(Endpoint leader) {
    is_record_lost_ = false;
    const auto found = links_.find(sought_);
    if (found != links_.end() && !found->second) open(sought_, std::move(leader));
}

void RendezvousAccess::fail_sought(std::string reason) {
    const auto found = links_.find(sought_);
    if (found == links_.end() || found->second) return;
    links_.erase(found);
    has_found_none_ = true;
    const bool is_refused = voters_ != nullptr && voters_->is_record_lost();
    const auto error = is_refused ? Agent::ConnectError::refused : Agent::ConnectError::no_answer;
    boost::asio::post(io_, [this, link = sought_, error, reason = std::move(reason)]() mutable {
        hooks_.on_event(Agent::LinkClosed{link, error, std::move(reason)});
    });
}

void RendezvousAccess::release(bool is_job_over) {
    if (!election_) return boost::asio::post(io_, [this] { hooks_.on_released(); });
    if (!election_->is_leading()) return election_->leave(is_job_over);
    // Stops the server before its key is removed, so that two servers never act at once.
    leaving_ = is_job_over;
    server_->depose("its node leaves");
}

void RendezvousAccess::open(int link, Endpoint endpoint) {
    last_server_ = endpoint;
    client::CoordinatorClient::Hooks hooks;
    hooks.on_connected = hooks_.on_connected;
    hooks.on_opened = [this, link](const client::CoordinatorClient::Opened& opened) {
        hooks_.on_event(Agent::LinkOpened{link, opened.socket_addr, opened.version});
    };
    hooks.on_message = [this, link, endpoint](control::ServerMessage message) {
        if (auto* refused = std::get_if<control::Refused>(&message))
            note_refusal(endpoint, *refused);
        if (const auto* welcome = std::get_if<control::Welcome>(&message))
            vote_about(welcome->record);
        if (const auto* resumed = std::get_if<control::Resumed>(&message))
            vote_about(resumed->record);
        if (const auto* voters = std::get_if<control::Voters>(&message)) know(*voters);
        hooks_.on_event(Agent::Received{link, std::move(message)});
    };
    hooks.on_closed = [this, link, endpoint](client::CoordinatorClient::Closed closed) {
        links_.erase(link);
        if (closed.error == Agent::ConnectError::refused) places_.knows_none(endpoint);
        hooks_.on_event(Agent::LinkClosed{link, closed.error, std::move(closed.reason)});
    };
    links_[link] = make_client(std::move(endpoint), std::move(hooks));
}

/// At the start of a job no place is waited for that only says that it has no leader.
void RendezvousAccess::note_refusal(const Endpoint& place, control::Refused& refused) {
    if (!refused.retry || !refused.does_not_lead || !places_.is_asking()) return;
    places_.knows_none(place);
    if (places_.is_first_turn()) refused.retry = pause_between_places;
}

std::unique_ptr<client::CoordinatorClient> RendezvousAccess::make_client(
    Endpoint endpoint, client::CoordinatorClient::Hooks hooks) {
    std::optional<client::CoordinatorClient::Security> security;
    if (secrets_) security = {secrets_->control_key(), secrets_->name()};
    // The timeout starts when TCP is connected. A server with thousands of pending handshakes needs
    // seconds for them, and a new attempt would add to its load.
    const auto greeting_timeout =
        security ? limits::handshake_timeout : limits::connect_attempt_timeout;
    return std::make_unique<client::CoordinatorClient>(
        io_, std::move(endpoint), std::move(hooks), greeting_timeout, std::move(security));
}

void RendezvousAccess::send(int link, control::AgentMessage message) {
    // The server may choose the node as a voter as soon as it has this message.
    if (const auto* join = std::get_if<control::Join>(&message); join != nullptr && voters_)
        voters_->answer_as(join->node.nonce);
    if (auto* greeting = control::greeting_in(message); greeting != nullptr && voters_)
        if (greeting->record = voters_->shared_record(); !greeting->record)
            greeting->record = lost_record_;
    const auto found = links_.find(link);
    if (found != links_.end() && found->second) found->second->send(std::move(message));
}

void RendezvousAccess::close(int link) {
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    auto client = std::move(found->second);
    links_.erase(found);
    // This may destroy the client inside one of its own hooks, which the client allows.
    if (client) client->end();
}

void RendezvousAccess::interrupt_server(
    int signal, std::string reason, std::optional<Duration> grace) {
    is_interrupted_ = true;
    if (server_) server_->interrupt(signal, std::move(reason), grace);
}

void RendezvousAccess::ask_if_server_is_idle() {
    if (server_) server_->report_if_idle();
}

}  // namespace ddprun::agent
