// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/voter_engine.hpp"

#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/voter_address.hpp"
#include "rendezvous/voters/vote_text.hpp"

#include <boost/asio/post.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {

VoterEngine::VoterEngine(
    boost::asio::io_context& io,
    PeerCalls& calls,
    std::string job,
    Nonce process,
    Place place,
    Random& random)
    : io_(io),
      calls_(calls),
      job_(std::move(job)),
      place_(std::move(place)),
      voter_(process),
      driver_(
          io,
          "voters",
          Requests{{process, job_, place_.host_name}, random},
          [this](Requests::Effect& effect) { perform(effect); }) {
    serve();
}

VoterEngine::~VoterEngine() {
    calls_.serve_votes(std::nullopt);
}

void VoterEngine::serve() {
    calls_.serve_votes(PeerCalls::Votes{
        voter_.names(), [this](std::string_view request) { return answer(request); }});
}

void VoterEngine::answer_as(Nonce name) {
    voter_.add_name(name);
    serve();
}

void VoterEngine::ask(witness::LeaseRequest request, OnAnswer on_answer) {
    on_answers_.emplace(++last_request_, std::move(on_answer));
    driver_.post(Requests::Asked{last_request_, std::move(request)});
}

bool VoterEngine::create(Nonce lineage) {
    if (known()) return false;
    const auto own = own_voter();
    if (!voter_.create(job_, lineage, own.address, driver_.now())) return false;
    known({lineage, {}, {0, {own}, {}}});
    return true;
}

void VoterEngine::known(control::Voters voters) {
    driver_.post(Requests::Known{std::move(voters)});
}

bool VoterEngine::is_over() const {
    const auto* const record = voter_.last_accepted(job_);
    return record != nullptr && record->is_over();
}

bool VoterEngine::is_voter() const {
    const auto voters = known();
    return voters && voter_.is_in(voters->set);
}

void VoterEngine::change_voters(
    std::uint64_t epoch, std::vector<voters::VoterPlace> voters, OnChanged on_changed) {
    on_changes_.emplace(++last_request_, std::move(on_changed));
    driver_.post(Requests::VotersWanted{last_request_, {epoch, std::move(voters)}});
}

void VoterEngine::perform(Requests::Effect& effect) {
    // The callbacks run later: a voter of this process may have answered at once.
    const auto call_back = [this](auto& callbacks, auto& outcome, auto& result) {
        auto found = callbacks.extract(outcome.request);
        if (found.empty()) return;
        later([callback = std::move(found.mapped()), result = std::move(result)]() mutable {
            callback(std::move(result));
        });
    };
    std::visit(
        Overloaded{
            [&](const Requests::Send& order) { send(order); },
            [&](Requests::Replied& replied) { call_back(on_answers_, replied, replied.answer); },
            [&](Requests::Changed& changed) { call_back(on_changes_, changed, changed.voters); },
        },
        effect);
}

void VoterEngine::send(const Requests::Send& send) {
    const auto voter = send.to.nonce;
    if (voter_.is_own(voter)) return driver_.post(Requests::Answered{voter, vote(send.request)});
    const auto to = control::parse_voter_address(send.to.address);
    if (!to) return driver_.post(Requests::Unreached{voter});
    const auto call = newest_calls_[voter] = ++last_call_;
    calls_.ask_voter(
        *to,
        voter,
        voters::encode(send.request),
        [this, voter, call, alive = std::weak_ptr{alive_}](const PeerCalls::VoteReply& reply) {
            if (!alive.expired()) on_reply(voter, call, reply);
        });
}

void VoterEngine::on_reply(const Nonce& voter, int call, const PeerCalls::VoteReply& reply) {
    const auto newest = newest_calls_.find(voter);
    const bool is_newest = newest != newest_calls_.end() && newest->second == call;
    if (is_newest) newest_calls_.erase(newest);
    if (auto answer = voters::message_of<voters::Answer>(reply.line))
        driver_.post(Requests::Answered{voter, std::move(*answer)});
    else if (is_newest)
        driver_.post(Requests::Unreached{voter, reply.is_refused});
}

std::string VoterEngine::answer(std::string_view line) {
    const auto request = voters::message_of<voters::Request>(line);
    return request ? voters::encode(vote(*request)) : std::string{};
}

voters::Answer VoterEngine::vote(const voters::Request& request) {
    if (voters::job_of(request) != job_) return voters::unknown_to(request);
    auto answer = voter_.handle(request, driver_.now());
    const auto* const accept = std::get_if<voters::Accept>(&request);
    if (accept != nullptr && std::holds_alternative<voters::Accepted>(answer)) {
        known({accept->record.lineage, accept->ballot, accept->record.voters});
        if (on_accepted_) later(on_accepted_);
        if (accept->record.is_over() && on_over_) later(on_over_);
    }
    return answer;
}

void VoterEngine::later(std::function<void()> call) {
    boost::asio::post(io_, [call = std::move(call), alive = std::weak_ptr{alive_}] {
        if (!alive.expired()) call();
    });
}

}  // namespace ddprun::agent
