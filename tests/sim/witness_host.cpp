// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/witness_host.hpp"

#include "rendezvous/control/voter_address.hpp"
#include "rendezvous/voters/vote_text.hpp"
#include "tests/sim/cluster.hpp"

#include <utility>
#include <variant>

namespace ddprun::sim {

std::string WitnessHost::address() {
    return control::VoterAddress{{"10.9.9.9", 29'400}, true}.to_string();
}

void WitnessHost::start() {
    nonce_ = make_nonce(cluster_.world().random());
    witness_.emplace(nonce_);
}

void WitnessHost::accept(const std::shared_ptr<Link>& link) {
    // The handler is part of the link, so it must not own it.
    link->attach(
        Link::server,
        {[this, weak = std::weak_ptr{link}](const std::string& line) {
             const auto asked = weak.lock();
             if (auto reply = answer(line); !reply.empty())
                 asked->send(Link::server, std::move(reply));
             asked->close(Link::server);
         },
         [] {}});
}

std::string WitnessHost::answer(const std::string& line) {
    if (!witness_) return {};
    auto& world = cluster_.world();
    const auto request = line.substr(voters::vote_protocol.size());
    auto reply = witness_->answer({}, request, world.now());
    const auto parsed = voters::message_of<voters::Request>(request);
    const auto answer = voters::message_of<voters::Answer>(reply.line);
    const auto* accept = parsed ? std::get_if<voters::Accept>(&*parsed) : nullptr;
    if (accept != nullptr && answer && std::holds_alternative<voters::Accepted>(*answer))
        cluster_.checkers().on_accepted(
            {accept->job, accept->voter, accept->ballot, accept->record, world.now()});
    return std::move(reply.line);
}

}  // namespace ddprun::sim
