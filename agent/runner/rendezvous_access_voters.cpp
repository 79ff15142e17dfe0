// SPDX-License-Identifier: Apache-2.0
// Where nodes of the job vote about its leader: this process's voter, the witness, and what the
// leader and the server here are notified of.
#include "agent/runner/rendezvous_access.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/text.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::agent {

/// This process is a voter from here on, and asks the other ones.
void RendezvousAccess::begin_voting(std::string own_address) {
    const auto [nonce, peer_port] = peers_.own_voter();
    // Its engine serves this process's votes until it is destroyed.
    election_.reset();
    voters_retry_.cancel();
    auto engine = std::make_unique<VoterEngine>(
        io_,
        peers_.calls,
        config_.join.run_id,
        nonce,
        VoterEngine::Place{config_.join.node.host, {std::move(own_address), peer_port}},
        peers_.random);
    engine->on_over([this] { hooks_.on_voters_released(); });
    engine->on_accepted([this] { note_succession(); });
    voters_ = engine.get();
    election_ = std::make_unique<Election>(
        io_,
        Election::Engine{std::move(engine), "the voters", limits::voted_ttl, true},
        nonce.to_string(),
        election_hooks());
    succession_.begin_record();
    note_succession();
}

/// The job's server leads by another record, about which this process has not voted.
void RendezvousAccess::vote_about(const std::optional<Nonce>& record) {
    if (voters_ == nullptr || !record || election_->is_leading()) return;
    const auto known = voters_->known();
    if (!known || known->lineage == *record) return;
    renew_voter("the job's server leads by another one");
}

/// This process votes about another record from here on. A server here has its voter too.
void RendezvousAccess::renew_voter(std::string reason) {
    log::warning("rendezvous.record_replaced", {{"reason", reason}});
    begin_voting(voters_->local_address());
    is_record_lost_ = false;
    fail_sought(reason);
    if (!server_) return;
    server_.reset();
    auto on = own_listen_;
    on.port = own_server_.port;
    if (const auto failed = host({on, std::move(reason)}))
        log::warning("rendezvous.not_served", {{"reason", failed->describe()}});
}

/// From a leader, or from a server that does not lead any more.
void RendezvousAccess::know(const control::Voters& voters) {
    if (voters_ == nullptr) return;
    if (is_record_lost_) vote_about(voters.lineage);
    voters_->known(voters);
    if (voters_->known()) places_.end_asking();
    note_succession();
    // A server that leads has sent this message itself.
    if (server_ && !election_->is_leading()) server_->voters_changed(config_.join.run_id, voters);
}

/// None: this node does not lead.
std::optional<voters::Identify> RendezvousAccess::led_record() const {
    if (voters_ == nullptr || !election_->is_leading()) return std::nullopt;
    return voters::Identify{config_.join.run_id, voters_->known()->lineage};
}

void RendezvousAccess::replace_lost_leader() {
    if (voters_->misses_leader() && !election_->is_leading()) election_->seek(false);
}

/// The coordinator waits for the answer, so this is tried as long as this server leads, or until
/// the coordinator wants others.
void RendezvousAccess::change_voters(const coordinator::ChangeVoters& change) {
    if (!election_->is_leading() || election_->epoch() != change.epoch) return;
    const int turn = ++voters_turn_;
    voters_retry_.cancel();
    voters_->change_voters(
        change.epoch, change.voters, [this, change, turn](Result<control::Voters> changed) {
            if (changed) {
                const auto voters = short_list(
                    changed->set.voters, {limits::max_voters, " "}, [](const auto& voter) {
                        return voter.address;
                    });
                log::info("rendezvous.voters", {{"voters", voters}});
                note_succession();
                return server_->voters_changed(change.run_id, std::move(*changed));
            }
            log::debug("rendezvous.voters_not_changed", {{"reason", changed.error().describe()}});
            if (turn != voters_turn_) return;
            voters_retry_.expires_after(limits::voters_retry);
            voters_retry_.async_wait([this, change, turn](const error_code& ec) {
                if (!ec && turn == voters_turn_) change_voters(change);
            });
        });
}

/// This process is the only voter of its own record, in which no round was begun: the job has
/// another one.
void RendezvousAccess::follow(const control::Voters& voters) {
    begin_voting(voters_->local_address());
    fail_sought("the job has another leader");
    know(voters);
}

/// Nodes that start find a server at its own place themselves.
std::vector<Endpoint> RendezvousAccess::claimed_places() const {
    if (voters_ == nullptr) return {};
    auto places = places_.all();
    if (const auto own = places_.own()) places.erase(places.begin() + static_cast<int>(*own));
    return places;
}

/// At the first place nodes that start find this server themselves, until it is gone and another
/// one leads. Where none could follow, others need not know its record.
std::optional<EndpointClaim::Leader> RendezvousAccess::claim() const {
    if (voters_ == nullptr || !election_->is_leading()) return std::nullopt;
    if (places_.is_first() && !voters_->shared_record()) return EndpointClaim::Leader{};
    return EndpointClaim::Leader{control::Claim{config_.join.run_id, *voters_->known()}};
}

}  // namespace ddprun::agent
