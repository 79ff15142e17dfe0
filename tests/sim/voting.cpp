// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/voting.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/control/voter_address.hpp"
#include "rendezvous/voters/vote_text.hpp"
#include "tests/sim/cluster.hpp"

#include <utility>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* which_voters = "which voters\n";

}  // namespace

Voting::Voting(
    Cluster& cluster, std::string place, std::string addr, std::string run_id, Nonce process)
    : cluster_(cluster),
      world_(cluster.world()),
      place_(std::move(place)),
      addr_(std::move(addr)),
      run_id_(std::move(run_id)),
      names_{process},
      voter_(process),
      requests_(
          world_,
          Requests{{process, run_id_, place_}, world_.random()},
          [this](Requests::Effect& effect) { perform(effect); }) {}

control::VoterPlace Voting::own_voter() const {
    return {Endpoint{addr_, voter_port}.to_string(), names_.back()};
}

void Voting::answer_as(const Nonce& name) {
    if (voter_.is_own(name)) return;
    names_.push_back(name);
    voter_.add_name(name);
}

void Voting::create() {
    const auto own = own_voter();
    const auto lineage = make_nonce(world_.random());
    require(voter_.create(run_id_, lineage, own.address, world_.now()), "one record of the job");
    cluster_.checkers().on_accepted(
        {run_id_, own.nonce, {0, own.nonce}, *voter_.last_accepted(run_id_), world_.now()});
    known({lineage, {}, {0, {own}, {}}});
}

void Voting::ask(witness::LeaseRequest request, OnAnswer on_answer) {
    on_answers_.emplace(++last_request_, std::move(on_answer));
    requests_.post(Requests::Asked{last_request_, std::move(request)});
}

void Voting::change_voters(voters::ChangeVoters change, OnChanged on_changed) {
    on_changes_.emplace(++last_request_, std::move(on_changed));
    requests_.post(Requests::VotersWanted{last_request_, std::move(change)});
}

void Voting::known(control::Voters voters) {
    requests_.post(Requests::Known{std::move(voters)});
}

bool Voting::is_voter() const {
    const auto voters = known();
    return voters && voter_.is_in(voters->set);
}

bool Voting::is_over() const {
    const auto* const record = voter_.last_accepted(run_id_);
    return record != nullptr && record->is_over();
}

void Voting::ask_for_voters(const std::string& host, OnFound on_found) {
    call(host, which_voters, [this, on_found = std::move(on_found)](const Reply& reply) {
        control::ServerMessageDecoder decoder;
        decoder.append(reply.line);
        const auto message = decoder.next();
        const bool is_found = message && *message;
        if (is_found) known(std::get<control::Voters>(**message));
        on_found(is_found);
    });
}

void Voting::find_witness(std::function<void(std::optional<control::VoterPlace>)> on_seen) {
    call(
        WitnessHost::place,
        std::string{voters::vote_protocol} +
            voters::encode(voters::Identify{run_id_, known()->lineage}),
        [on_seen = std::move(on_seen)](const Reply& reply) {
            const auto nonce = voters::identity_in(reply.line);
            on_seen(
                nonce ? std::optional{control::VoterPlace{WitnessHost::address(), *nonce}}
                      : std::nullopt);
        });
}

bool Voting::is_for_voter(const std::string& line) {
    return line == which_voters || line.starts_with(voters::vote_protocol);
}

void Voting::accept(const std::shared_ptr<Link>& link, const std::string& line) {
    if (is_frozen_) return link->close(Link::server);
    if (is_paused_) {
        waiting_.emplace_back(link, line);
        return;
    }
    if (auto reply = answer(line); !reply.empty()) link->send(Link::server, std::move(reply));
    link->close(Link::server);
}

void Voting::pause() {
    is_paused_ = true;
    requests_.pause();
}

void Voting::resume() {
    if (!is_paused_) return;
    is_paused_ = false;
    // Calls and answers that have arrived meanwhile are handled in either order.
    const bool are_calls_first = world_.any(0, 1) == 0;
    if (!are_calls_first) requests_.resume();
    for (const auto& [link, line] : std::exchange(waiting_, {}))
        accept(link, line);
    requests_.resume();
}

void Voting::freeze() {
    is_frozen_ = true;
    requests_.freeze();
}

void Voting::perform(Requests::Effect& effect) {
    const auto call_back = [this](auto& callbacks, auto& outcome, auto& result) {
        auto found = callbacks.extract(outcome.request);
        if (found.empty()) return;
        later([callback = std::move(found.mapped()), result = std::move(result)] {
            callback(result);
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

void Voting::send(const Requests::Send& send) {
    const auto voter = send.to.nonce;
    if (voter_.is_own(voter)) return requests_.post(Requests::Answered{voter, vote(send.request)});
    const auto to = control::parse_voter_address(send.to.address);
    require(to.has_value(), "voters have addresses");
    const int number = newest_calls_[voter] = ++last_call_;
    call(
        to->is_witness ? WitnessHost::place : cluster_.host_at(to->endpoint.host)->name(),
        std::string{voters::vote_protocol} + voters::encode(send.request),
        [this, voter, number](const Reply& reply) { on_reply(voter, number, reply); });
}

void Voting::on_reply(const Nonce& voter, int call, const Reply& reply) {
    const auto newest = newest_calls_.find(voter);
    const bool is_newest = newest != newest_calls_.end() && newest->second == call;
    if (is_newest) newest_calls_.erase(newest);
    if (auto answer = voters::message_of<voters::Answer>(reply.line))
        requests_.post(Requests::Answered{voter, std::move(*answer)});
    else if (is_newest)
        requests_.post(Requests::Unreached{voter, reply.is_refused});
}

void Voting::call(const std::string& place, const std::string& line, OnReply on_reply) {
    struct Call {
        OnReply on_reply;
        std::shared_ptr<Link> link;
        void end(const Reply& reply) {
            if (const auto own = std::exchange(link, nullptr)) own->close(Link::client);
            if (const auto done = std::exchange(on_reply, nullptr)) done(reply);
        }
    };
    const auto call = std::make_shared<Call>(Call{std::move(on_reply), nullptr});
    auto* other = place == WitnessHost::place ? nullptr : &cluster_.host(place);
    const bool is_answered = cluster_.network().connects(place_, place);
    const bool is_there = other ? other->voter() != nullptr : cluster_.witness().is_up();
    const bool is_refused = is_answered && !is_there;
    world_.after(is_refused ? 1ms : limits::peer_answer_timeout, [call, is_refused] {
        call->end({{}, is_refused});
    });
    if (!is_answered || is_refused) return;
    call->link = cluster_.network().connect(place_, place);
    call->link->attach(
        Link::client,
        {[call](const std::string& bytes) { call->end({bytes}); }, [call] { call->end({}); }});
    if (other)
        other->accept_peer(call->link);
    else
        cluster_.witness().accept(call->link);
    call->link->send(Link::client, line);
}

std::string Voting::answer(const std::string& line) {
    if (line == which_voters) {
        const auto voters = known();
        return voters ? control::encode(control::ServerMessage{*voters}) : std::string{};
    }
    const auto request =
        voters::message_of<voters::Request>(line.substr(voters::vote_protocol.size()));
    require(request.has_value(), "proposers speak the protocol");
    return voters::encode(vote(*request));
}

voters::Answer Voting::vote(const voters::Request& request) {
    auto answer = voter_.handle(request, world_.now());
    const auto* const accept = std::get_if<voters::Accept>(&request);
    if (accept != nullptr && std::holds_alternative<voters::Accepted>(answer)) {
        cluster_.checkers().on_accepted(
            {run_id_, accept->voter, accept->ballot, accept->record, world_.now()});
        known({accept->record.lineage, accept->ballot, accept->record.voters});
        if (on_accepted_) later(on_accepted_);
        if (accept->record.is_over() && on_over_) later(on_over_);
    }
    return answer;
}

void Voting::later(std::function<void()> action) {
    world_.after(0s, [this, action = std::move(action)] {
        if (!is_frozen_) action();
    });
}

}  // namespace ddprun::sim
