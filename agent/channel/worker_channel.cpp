// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/worker_channel.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddprun::agent::channel {

void WorkerChannel::handle(Event event, Instant now, Effects& out) {
    std::visit(
        Overloaded{
            [&](RoundBegan& began) { begin(std::move(began), out); },
            [&](LineWanted& wanted) {
                if (const auto caller = holdable_of(wanted.local_rank))
                    out.push_back(SendLine{*caller, std::move(wanted.line)});
            },
            [&](RoundEnded) { begin({}, out); },
            [&](const Connected& connected) { on_connected(connected, now, out); },
            [&](const Received& received) { on_received(received, out); },
            [&](const Closed& closed) { end_caller(closed.caller, out); },
            [&](DeadlinePassed) { on_deadline(now, out); },
        },
        event);
}

std::optional<Instant> WorkerChannel::next_deadline() const {
    std::optional<Instant> first;
    for (const auto& [number, caller] : callers_)
        if (const auto* greeting = std::get_if<AwaitingGreeting>(&caller))
            first = std::min(first.value_or(greeting->until), greeting->until);
    return first;
}

void WorkerChannel::begin(RoundBegan began, Effects& out) {
    const auto is_kept = [&](int local_rank) {
        return std::find(began.kept.begin(), began.kept.end(), local_rank) != began.kept.end();
    };
    for (auto caller = callers_.begin(); caller != callers_.end();) {
        const auto* attached = std::get_if<Attached>(&caller->second);
        const bool stays = attached != nullptr && is_kept(attached->local_rank);
        if (!stays) out.push_back(Close{caller->first});
        caller = stays ? std::next(caller) : callers_.erase(caller);
    }
    for (const int local_rank : began.kept) {
        const auto index = static_cast<std::size_t>(local_rank);
        began.tokens.at(index) = tokens_.at(index);
    }
    tokens_ = std::move(began.tokens);
    std::erase_if(owner_of_, [&](const auto& owner) { return !is_kept(owner.first); });
    has_noted_ = false;
}

void WorkerChannel::on_connected(const Connected& connected, Instant now, Effects& out) {
    constexpr unsigned root = 0;
    const auto& peer = connected.peer;
    if (peer.user != user_ && peer.user != root)
        return close(connected.caller, "a process of the user " + std::to_string(peer.user), out);
    if (unfinished_count() >= limits::max_unfinished_channels)
        return close(connected.caller, "too many connections without a token", out);
    callers_.emplace(
        connected.caller, AwaitingGreeting{peer, now + limits::channel_greeting_timeout});
}

void WorkerChannel::on_received(const Received& received, Effects& out) {
    const auto found = callers_.find(received.caller);
    // The connection's last bytes were read before it was closed.
    if (found == callers_.end()) return;
    if (received.has_descriptors) return close(received.caller, "descriptors", out);
    if (auto* attached = std::get_if<Attached>(&found->second)) {
        attached->lines.append(received.bytes);
        for (;;) {
            const auto next = attached->lines.next();
            if (next.state == LineReader::State::incomplete) return;
            on_line(received.caller, *attached, next.line, out);
            if (!callers_.contains(received.caller)) return;
        }
    }
    auto* greeting = std::get_if<AwaitingGreeting>(&found->second);
    greeting->lines.append(received.bytes);
    const auto next = greeting->lines.next();
    if (next.state == LineReader::State::incomplete) return;
    const auto parsed = parse_greeting(next.line);
    if (!parsed) return close(received.caller, "no greeting of a worker", out);
    const auto peer = greeting->peer;
    on_greeting(received.caller, peer, *parsed, out);
}

/// `line`: empty also for one that is too long.
void WorkerChannel::on_line(int caller, Attached& attached, std::string_view line, Effects& out) {
    const int local_rank = attached.local_rank;
    if (line == recoverable_line && !holdable_of(local_rank)) {
        attached.is_holdable = true;
        return out.push_back(NoteRecoverable{local_rank, true});
    }
    const auto holding = parse_holding(line);
    if (!attached.is_holdable || !holding)
        return close(caller, "an attached worker said something else", out);
    out.push_back(NoteHeld{local_rank, *holding});
}

std::optional<int> WorkerChannel::holdable_of(int local_rank) const {
    for (const auto& [number, caller] : callers_)
        if (const auto* attached = std::get_if<Attached>(&caller))
            if (attached->is_holdable && attached->local_rank == local_rank) return number;
    return std::nullopt;
}

/// The connection is closed, or is about to be.
void WorkerChannel::end_caller(int caller, Effects& out) {
    const auto found = callers_.find(caller);
    if (found == callers_.end()) return;
    const auto* attached = std::get_if<Attached>(&found->second);
    if (attached != nullptr && attached->is_holdable)
        out.push_back(NoteRecoverable{attached->local_rank, false});
    callers_.erase(found);
}

void WorkerChannel::on_greeting(
    int caller, const Peer& peer, const Greeting& greeting, Effects& out) {
    const auto local_rank = local_rank_of(greeting.token);
    if (!local_rank) return refuse(caller, "token", out);
    const int pid = peer.pid != 0 ? peer.pid : greeting.pid;
    std::size_t count = 0;
    for (const auto& [number, other] : callers_) {
        const auto* attached = std::get_if<Attached>(&other);
        if (attached == nullptr || attached->local_rank != *local_rank) continue;
        if (attached->pid != pid) return refuse(caller, "busy", out);
        ++count;
    }
    if (count >= limits::max_channels_of_worker) return refuse(caller, "connections", out);
    callers_.at(caller) = Attached{*local_rank, pid};
    const auto [owner, is_first] = owner_of_.try_emplace(*local_rank, pid);
    const bool is_new_owner = !is_first && owner->second != pid;
    owner->second = pid;
    out.push_back(GivePage{caller, *local_rank, is_new_owner});
}

void WorkerChannel::on_deadline(Instant now, Effects& out) {
    std::vector<int> late;
    for (const auto& [number, caller] : callers_)
        if (const auto* greeting = std::get_if<AwaitingGreeting>(&caller))
            if (now >= greeting->until) late.push_back(number);
    for (const int caller : late)
        close(caller, "no greeting in time", out);
}

void WorkerChannel::refuse(int caller, std::string reason, Effects& out) {
    callers_.erase(caller);
    note(reason, out);
    out.push_back(Refuse{caller, std::move(reason)});
}

void WorkerChannel::close(int caller, const std::string& reason, Effects& out) {
    end_caller(caller, out);
    note(reason, out);
    out.push_back(Close{caller});
}

void WorkerChannel::note(const std::string& reason, Effects& out) {
    if (has_noted_) return;
    has_noted_ = true;
    out.push_back(NoteRefused{reason});
}

std::optional<int> WorkerChannel::local_rank_of(const std::string& token) const {
    std::optional<int> found;
    for (std::size_t i = 0; i < tokens_.size(); ++i)
        if (is_same_token(tokens_[i], token)) found = static_cast<int>(i);
    return found;
}

std::size_t WorkerChannel::unfinished_count() const {
    return static_cast<std::size_t>(
        std::count_if(callers_.begin(), callers_.end(), [](const auto& caller) {
            return std::holds_alternative<AwaitingGreeting>(caller.second);
        }));
}

std::string describe(const WorkerChannel::Event& event) {
    using W = WorkerChannel;
    const auto of = [](int caller) { return " caller=" + std::to_string(caller); };
    return std::visit(
        Overloaded{
            [](const W::RoundBegan& e) {
                return "round began with tokens for " + std::to_string(e.tokens.size());
            },
            [](const W::LineWanted& e) {
                return "line wanted local_rank=" + std::to_string(e.local_rank);
            },
            [](W::RoundEnded) { return std::string{"round ended"}; },
            [&](const W::Connected& e) {
                return "connected" + of(e.caller) + " pid=" + std::to_string(e.peer.pid) +
                       " user=" + std::to_string(e.peer.user);
            },
            // Described without the token.
            [&](const W::Received& e) {
                return "received" + of(e.caller) + " bytes=" + std::to_string(e.bytes.size());
            },
            [&](const W::Closed& e) { return "closed" + of(e.caller); },
            [](W::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const WorkerChannel::Effect& effect) {
    using W = WorkerChannel;
    const auto of = [](int caller) { return " caller=" + std::to_string(caller); };
    return std::visit(
        Overloaded{
            [&](const W::GivePage& e) {
                return "give page" + of(e.caller) + " local_rank=" + std::to_string(e.local_rank) +
                       (e.is_new_owner ? " of a new owner" : "");
            },
            [&](const W::Refuse& e) { return "refuse" + of(e.caller) + ": " + e.reason; },
            [&](const W::Close& e) { return "close" + of(e.caller); },
            [&](const W::SendLine& e) { return "send line" + of(e.caller); },
            [](const W::NoteRecoverable& e) {
                return std::string{e.is_recoverable ? "recoverable" : "no longer recoverable"} +
                       " local_rank=" + std::to_string(e.local_rank);
            },
            [](const W::NoteHeld& e) {
                return "held local_rank=" + std::to_string(e.local_rank) +
                       " round=" + std::to_string(e.holding.round);
            },
            [](const W::NoteRefused& e) { return "note refused: " + e.reason; },
        },
        effect);
}

}  // namespace ddprun::agent::channel
