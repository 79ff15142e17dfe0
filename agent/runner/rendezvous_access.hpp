// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/agent_config.hpp"
#include "agent/plan/places.hpp"
#include "agent/runner/election.hpp"
#include "agent/runner/endpoint_claim.hpp"
#include "agent/runner/peer_calls.hpp"
#include "agent/runner/voter_engine.hpp"
#include "agent/runner/witness_finder.hpp"
#include "agent/supervise/agent.hpp"
#include "agent/supervise/succession.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/server/placement.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/tls/secret_file.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::agent {

/// This node's connection to the rendezvous server. Until a server has answered, each attempt
/// decides which node hosts the server. If this node does, it starts the server and connects to it
/// over the loopback interface. With an election by an engine no node is special: the election
/// decides which server leads, and this node's server is a candidate if there is no leader. With an
/// election by the job's own nodes the first leader is placed, and the voters of the first round
/// elect the later ones.
///
/// Lives on the agent's thread; a hosted server has its own threads.
class RendezvousAccess {
public:
    struct Hooks {
        /// Called when connected, before anything is written.
        std::function<void(int descriptor)> on_connected;
        /// Events for the machine. Never called from inside a function of this class.
        std::function<void(Agent::Event)> on_event;
        /// The hosted server has no agent and no job left.
        std::function<void()> on_server_idle;
        /// Answer to `release`.
        std::function<void()> on_released;
        /// This node's server leads.
        std::function<void()> on_elected;
        /// A leader has stepped down after the end of the job: no node needs this one's vote.
        std::function<void()> on_voters_released;
        /// Lists this node's worker stores, for the pages of a hosted server.
        server::AskStores ask_stores;
    };

    /// With voters: how this process votes and asks others for their votes.
    struct Peers {
        PeerCalls& calls;
        Random& random;
        /// The nonce of this node, which a lost node changes, and the port of `calls`.
        std::function<std::pair<Nonce, std::uint16_t>()> own_voter;
    };

    RendezvousAccess(
        boost::asio::io_context& io, const AgentConfig& config, Peers peers, Hooks hooks);
    ~RendezvousAccess();
    RendezvousAccess(const RendezvousAccess&) = delete;
    RendezvousAccess& operator=(const RendezvousAccess&) = delete;

    void connect(int link, bool may_host, Duration unanswered_for);
    void send(int link, control::AgentMessage message);
    void close(int link);

    /// This node's server runs the job.
    bool is_hosting() const { return election_ ? election_->is_leading() : server_ != nullptr; }
    /// The server was elected by the job's own nodes, after an end was recorded.
    bool is_successor() const { return is_successor_ && is_hosting(); }
    /// This process votes about the leader, and is not released.
    bool is_needed_as_voter() const {
        return voters_ != nullptr && voters_->is_voter() && !voters_->is_over();
    }
    /// Makes this voter's server a candidate if the leader is lost.
    void replace_lost_leader();
    /// The server to which this node last connected; port 0: none yet.
    const Endpoint& last_server() const { return last_server_; }
    /// The token with which the server shows its pages; empty: there is no secret.
    std::string page_token() const { return secrets_ ? secrets_->page_token() : std::string{}; }
    /// Call when this node's part is over: releases an elected server here. Another server may
    /// follow, unless the job is over.
    void release(bool is_job_over);
    /// The job ends for all nodes with this one: its server was interrupted.
    bool is_interrupted() const { return is_interrupted_; }
    void interrupt_server(int signal, std::string reason, std::optional<Duration> grace);
    /// `on_server_idle` follows if the server has no agent and no job.
    void ask_if_server_is_idle();

private:
    boost::asio::awaitable<void> attempt(int link, Duration unanswered_for);
    server::PlacementFacts facts_of(std::size_t place) const;
    void connect_to_places(int link, Duration unanswered_for);
    void lead_at_endpoint(int link, Duration unanswered_for);
    /// The final decision: listens if the first decision says so, and decides again if the port is
    /// taken.
    server::Placement settle(server::PlacementFacts facts);
    void warn_of_port_holder(const server::PlacementFacts& facts);
    std::optional<Failure> host(const server::Listen& listen);
    std::optional<Failure> host_at(std::uint16_t port, const server::Listen& listen);
    void warn_of_no_secret(const server::Listen& listen) const;
    void open(int link, Endpoint endpoint);
    std::unique_ptr<client::CoordinatorClient> make_client(
        Endpoint endpoint, client::CoordinatorClient::Hooks hooks);
    void seek(int link, Duration unanswered_for);
    bool elects(Duration unanswered_for);
    void note_succession();
    Election::Hooks election_hooks();
    Result<Endpoint> open_candidate(const std::string& own_address);
    void open_sought(Endpoint leader);
    void fail_sought(std::string reason);
    void begin_voting(std::string own_address);
    void vote_about(const std::optional<Nonce>& record);
    void renew_voter(std::string reason);
    void know(const control::Voters& voters);
    void change_voters(const coordinator::ChangeVoters& change);
    void follow(const control::Voters& voters);
    std::optional<voters::Identify> led_record() const;
    std::vector<Endpoint> claimed_places() const;
    std::optional<EndpointClaim::Leader> claim() const;
    void note_refusal(const Endpoint& place, control::Refused& refused);

    boost::asio::io_context& io_;
    const AgentConfig& config_;
    Peers peers_;
    Hooks hooks_;
    /// The secrets that this node proves to have.
    std::optional<tls::Secrets> secrets_;
    std::unique_ptr<Election> election_;
    /// The engine of `election_` where nodes vote; null: others keep the record, or there is no
    /// election.
    VoterEngine* voters_ = nullptr;
    bool is_successor_ = false;
    Succession succession_;
    bool is_interrupted_ = false;
    /// The number of the last request for other voters: those before it are not tried again.
    int voters_turn_ = 0;
    boost::asio::steady_timer voters_retry_;
    Places places_;
    EndpointClaim endpoint_claim_;
    /// None: the job has no witness.
    std::optional<WitnessFinder> witness_;
    /// The last search for the leader has failed.
    bool has_found_none_ = false;
    /// No leader was found for so long that the job may have another record at the endpoint.
    bool is_record_lost_ = false;
    /// The one that this process has replaced as lost. Its own node waits as the others that know
    /// it: until then their leader, if they have one after all, may claim this server.
    std::optional<Nonce> lost_record_;
    /// The link whose attempt waits for the election.
    int sought_ = 0;
    /// Set while this node waits for its server to step down before the node leaves; true: the job
    /// is over.
    std::optional<bool> leaving_;
    std::unique_ptr<server::RendezvousServer> server_;
    server::ListenOn own_listen_;
    Endpoint own_server_;
    Endpoint last_server_;
    /// The process that holds the endpoint's port, read when the port was first found taken.
    std::optional<std::string> port_holder_;
    bool has_warned_of_port_holder_ = false;
    /// By link; null until it is decided which node hosts.
    std::map<int, std::unique_ptr<client::CoordinatorClient>> links_;
};

}  // namespace ddprun::agent
