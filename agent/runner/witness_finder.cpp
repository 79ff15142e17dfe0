// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/witness_finder.hpp"

#include "agent/runner/name_lookup.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/control/voter_address.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/interfaces.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddprun::agent {
namespace {

/// One attempt may be lost on a busy machine.
constexpr int failures_to_report = 2;
constexpr Duration interval_when_found = 5 * limits::claim_interval;

bool is_of_this_machine(const std::string& address) {
    const auto own = server::interface_addresses();
    return is_loopback(address) || std::find(own.begin(), own.end(), address) != own.end();
}

}  // namespace

struct WitnessFinder::State {
    State(boost::asio::io_context& context, PeerCalls& peer_calls, Endpoint endpoint, Hooks given)
        : io(context),
          timer(context),
          calls(&peer_calls),
          typed(std::move(endpoint)),
          hooks(std::move(given)) {}

    boost::asio::io_context& io;
    boost::asio::steady_timer timer;
    PeerCalls* calls;
    Endpoint typed;
    Hooks hooks;
    /// The number of the last `start`; 0: the owner is gone.
    int turn = 1;
    /// Empty: the name is looked up before the next attempt.
    std::vector<std::string> addresses;
    int failures = 0;
    /// The problem that the log shows last; empty: it was found.
    std::optional<std::string> reported;

    bool goes_on(int with) const { return turn == with && hooks.find_record().has_value(); }
    void note(const std::string& problem);
};

void WitnessFinder::State::note(const std::string& problem) {
    if (problem.empty()) {
        failures = 0;
    } else {
        addresses.clear();
        if (++failures < failures_to_report) return;
        hooks.on_seen(std::nullopt);
    }
    if (reported == problem) return;
    reported = problem;
    if (problem.empty())
        return log::info("rendezvous.witness_found", {{"witness", typed.to_string()}});
    log::warning(
        "rendezvous.witness_lost",
        {{"witness", typed.to_string()},
         {"reason", problem},
         {"effect",
          "until it answers, two nodes elect no other server: start ddprun-rendezvous there"}});
}

WitnessFinder::WitnessFinder(
    boost::asio::io_context& io, PeerCalls& calls, Endpoint typed, Hooks hooks)
    : io_(io),
      state_(std::make_shared<State>(io, calls, std::move(typed), std::move(hooks))) {}

WitnessFinder::~WitnessFinder() {
    state_->turn = 0;
    state_->timer.cancel();
}

void WitnessFinder::start() {
    ++state_->turn;
    state_->timer.cancel();
    boost::asio::co_spawn(io_, ask_repeatedly(state_, state_->turn), rethrow);
}

boost::asio::awaitable<void> WitnessFinder::ask_repeatedly(std::shared_ptr<State> state, int turn) {
    while (state->turn == turn) {
        auto request = state->hooks.find_record();
        if (!request) co_return;
        const auto problem = co_await ask(state, turn, std::move(*request));
        if (!state->goes_on(turn)) co_return;
        state->note(problem);
        state->timer.expires_after(problem.empty() ? interval_when_found : limits::claim_interval);
        co_await state->timer.async_wait(net::as_values);
    }
}

/// Returns why it does not vote; empty: it was found.
boost::asio::awaitable<std::string> WitnessFinder::ask(
    std::shared_ptr<State> state, int turn, voters::Identify request) {
    struct Reply {
        explicit Reply(boost::asio::io_context& io) : deadline(io) {
            deadline.expires_after(2 * limits::peer_answer_timeout);
        }
        boost::asio::steady_timer deadline;
        PeerCalls::VoteReply answer;
    };
    if (state->addresses.empty()) {
        auto found = co_await NameLookup(state->io, state->typed).addresses();
        state->addresses = std::move(found);
    }
    std::string problem = "its name has no address";
    const auto addresses = state->addresses;
    for (const auto& address : addresses) {
        if (!state->goes_on(turn)) co_return problem;
        if (is_of_this_machine(address)) {
            problem = address + " is this machine: a witness is a machine that no node runs on";
            continue;
        }
        const Endpoint place{address, state->typed.port};
        const auto reply = std::make_shared<Reply>(state->io);
        state->calls->identify(place, request, [reply](const PeerCalls::VoteReply& answer) {
            reply->answer = answer;
            reply->deadline.cancel();
        });
        co_await reply->deadline.async_wait(net::as_values);
        if (!state->goes_on(turn)) co_return problem;
        const auto& [line, is_refused] = reply->answer;
        if (const auto nonce = voters::identity_in(line)) {
            // Asked first from here on: the place among the voters stays the same.
            auto& known = state->addresses;
            std::rotate(known.begin(), std::find(known.begin(), known.end(), address), known.end());
            state->hooks.on_seen(
                control::VoterPlace{control::VoterAddress{place, true}.to_string(), *nonce});
            co_return std::string{};
        }
        problem = is_refused      ? "the connection was refused"
                  : !line.empty() ? "it answered: " + printable_line(line)
                  : state->calls->has_secret()
                      ? "no answer in time, or it does not have the job's secret"
                      : "no answer in time";
    }
    co_return problem;
}

}  // namespace ddprun::agent
