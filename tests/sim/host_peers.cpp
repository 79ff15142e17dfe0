// SPDX-License-Identifier: Apache-2.0
// Messages between hosts: the real lines on simulated links.
#include "agent/supervise/neighbours.hpp"
#include "rendezvous/base/limits.hpp"
#include "tests/sim/cluster.hpp"
#include "tests/sim/host.hpp"

#include <utility>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

std::string_view line_of(const std::string& bytes) {
    return std::string_view{bytes}.substr(0, bytes.find('\n'));
}

}  // namespace

/// Simulated workers do not handle the notice; what matters is that the round waits for it.
void Host::give_notice(const Agent::GiveNotice& order) {
    const bool is_reached = reaches(order.note.store);
    later(is_reached ? 1ms : limits::death_notice_timeout, [this, round = order.round] {
        if (is_alive_) agent_.post(Agent::NoticeGiven{round});
    });
}

void Host::ask_peer(const agent::Neighbours::Ask& ask) {
    auto* other = cluster_.host_at(ask.to.host);
    const bool is_answered = other != nullptr && cluster_.network().connects(name_, other->name());
    auto& link = asks_[ask.id];
    if (is_answered && other->is_alive()) {
        link = cluster_.network().connect(name_, other->name());
        link->attach(
            Link::client,
            {[this, id = ask.id](const std::string& bytes) {
                 end_ask(id, agent::parse_peer_answer(line_of(bytes)));
             },
             [this, id = ask.id] { end_ask(id, std::nullopt); }});
        other->accept_peer(link);
        link->send(Link::client, agent::encode(ask.probe));
    }
    const bool is_refused = is_answered && !other->is_alive();
    later(is_refused ? 1ms : limits::peer_answer_timeout, [this, id = ask.id] {
        end_ask(id, std::nullopt);
    });
}

void Host::end_ask(int id, std::optional<agent::PeerAnswer> answer) {
    const auto link = asks_.extract(id);
    if (link.empty()) return;
    if (link.mapped()) link.mapped()->close(Link::client);
    agent_.post(Agent::PeerAnswered{id, answer});
}

void Host::accept_peer(const std::shared_ptr<Link>& link) {
    const int caller = ++last_peer_caller_;
    peer_callers_[caller] = link;
    link->attach(
        Link::server,
        {[this, caller](const std::string& bytes) {
             answer_peer_line(caller, bytes);
         },
         [this, caller] { peer_callers_.erase(caller); }});
}

void Host::answer_peer_line(int caller, const std::string& line) {
    if (Voting::is_for_voter(line)) {
        const auto link = peer_callers_.extract(caller);
        if (candidate_ && candidate_->voting) candidate_->voting->accept(link.mapped(), line);
        return;
    }
    if (const auto probe = agent::parse_peer_probe(line_of(line)))
        agent_.post(Agent::PeerAsked{caller, *probe});
}

void Host::answer_peer(const Agent::AnswerPeer& answer) {
    const auto link = peer_callers_.extract(answer.caller);
    if (link.empty()) return;
    if (answer.answer) link.mapped()->send(Link::server, agent::encode(*answer.answer));
    link.mapped()->close(Link::server);
}

}  // namespace ddprun::sim
