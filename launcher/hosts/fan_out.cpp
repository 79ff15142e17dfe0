// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/fan_out.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace fan_out {
namespace {

/// ssh's own exit code. A node that ends with the same code also sends a report.
constexpr int ssh_failed = 255;

/// A node reports its success too: without a report, exit code 0 is from a shell that executed
/// nothing.
bool is_silent(const FanOut::HostEnd& end) {
    return !end.report && end.exit_code == exit_codes::success;
}

bool is_lost(const FanOut::HostEnd& end) {
    const bool is_cut = end.exit_code < 0 || (end.is_ssh && end.exit_code == ssh_failed);
    return !end.report && (is_cut || is_silent(end));
}

bool is_bad(const FanOut::HostEnd& end) {
    return !end.report || end.report->exit_code != exit_codes::success;
}

/// A command has taken the node out of the job. The other nodes continue the job if they can.
bool is_drained(const FanOut::HostEnd& end) {
    return end.report && end.report->exit_code == exit_codes::drained;
}

bool is_refusal(const FanOut::HostEnd& end) {
    return end.report && end.report->is_refusal;
}

constexpr std::size_t max_named_hosts = 8;

}  // namespace
}  // namespace fan_out

FanOut::FanOut(const Settings& settings, std::vector<std::string> names) : settings_(settings) {
    require(names.size() == static_cast<std::size_t>(settings.host_count), "each host has a name");
    for (auto& name : names)
        places_.push_back({std::move(name), State::waiting, {}, {}});
}

int FanOut::count_in(State state) const {
    return static_cast<int>(std::count_if(
        places_.begin(), places_.end(), [&](const Place& place) { return place.state == state; }));
}

void FanOut::handle(Event event, Instant now, std::vector<Effect>& out) {
    if (is_finished_) return;
    std::visit(
        Overloaded{
            [&](Began) { connect_more(now, out); },
            [&](const Lacked& e) {
                auto& place = at(e.host);
                if (place.state != State::connecting) return;
                place.state = State::copying;
                place.deadline = now + limits::program_copy_timeout;
                out.push_back(SendProgram{e.host});
            },
            [&](const Readied& e) { become_ready(e.host, now, out); },
            [&](Refused& e) {
                const auto state = at(e.host).state;
                if (state != State::connecting && state != State::copying) return;
                fail(e.host, std::move(e.reason), now, out);
                out.push_back(Kill{e.host});
                begin_when_complete(out);
            },
            [&](Ended& e) { host_ended(e.host, std::move(e.end), now, out); },
            [&](const Signalled& e) { signalled(e.signal, now, out); },
            [&](const Forwarded& e) { signal_running(e.signal, out); },
            [&](DeadlinePassed) { pass_deadlines(now, out); },
        },
        event);
}

std::optional<Instant> FanOut::next_deadline() const {
    if (is_finished_) return std::nullopt;
    auto next = earliest(stop_at_, kill_at_);
    for (const auto& place : places_)
        next = earliest(next, place.deadline);
    return next;
}

void FanOut::connect_more(Instant now, Effects& out) {
    int busy = count_in(State::connecting) + count_in(State::copying);
    for (int host = 0; host < settings_.host_count && busy < limits::max_connecting_hosts; ++host) {
        auto& place = at(host);
        if (place.state != State::waiting) continue;
        place.state = State::connecting;
        place.deadline = now + settings_.connect_timeout;
        out.push_back(Connect{host});
        ++busy;
    }
}

void FanOut::become_ready(int host, Instant now, Effects& out) {
    auto& place = at(host);
    if (place.state != State::connecting && place.state != State::copying) return;
    place.state = State::ready;
    place.deadline.reset();
    connect_more(now, out);
    begin_when_complete(out);
}

void FanOut::fail(int host, std::string reason, Instant now, Effects& out) {
    auto& place = at(host);
    place.state = State::failed;
    place.deadline.reset();
    out.push_back(NoteFailed{host, std::move(reason)});
    connect_more(now, out);
}

void FanOut::begin_when_complete(Effects& out) {
    if (has_begun() || is_finished_) return;
    for (const auto state : {State::waiting, State::connecting, State::copying})
        if (count_in(state) > 0) return;
    std::vector<int> ready;
    std::vector<std::string> failed;
    for (int host = 0; host < settings_.host_count; ++host) {
        if (at(host).state == State::ready) ready.push_back(host);
        if (at(host).state == State::failed) failed.push_back(at(host).name);
    }
    if (static_cast<int>(ready.size()) < settings_.least) {
        is_finished_ = true;
        const bool is_one = failed.size() == 1;
        out.push_back(Finish{
            exit_codes::too_few_nodes,
            std::nullopt,
            std::to_string(failed.size()) + " of " + std::to_string(settings_.host_count) +
                (settings_.host_count == 1 ? " host" : " hosts") +
                " cannot be used: " + short_list(failed, {fan_out::max_named_hosts}) +
                (is_one ? "" : "; no worker was started"),
            false});
        return;
    }
    for (const int host : ready)
        at(host).state = State::running;
    nodes_ = ready;
    out.push_back(Start{std::move(ready)});
}

void FanOut::host_ended(int host, HostEnd end, Instant now, Effects& out) {
    auto& place = at(host);
    switch (place.state) {
        case State::connecting:
        case State::copying:
        case State::ready:
            fail(host, end.words.empty() ? "the connection ended" : end.words, now, out);
            return begin_when_complete(out);
        case State::running: break;
        // Nothing was started on this host, or the end of its connection is known.
        case State::waiting:
        case State::ended:
        case State::failed: return;
    }
    place.state = State::ended;
    const bool is_bad = fan_out::is_bad(end);
    const bool is_final = fan_out::is_lost(end) || fan_out::is_refusal(end);
    place.end = std::move(end);
    if (is_bad && !first_failed_) first_failed_ = host;
    if (count_in(State::running) == 0) return finish(out);
    if (!is_bad || fan_out::is_drained(*place.end) || is_elastic() || kill_at_) return;
    // The rendezvous server ends the other nodes. It notices a node that never joined only after
    // minutes.
    if (is_final)
        stop_running(SIGTERM, now, out);
    else if (!stop_at_)
        stop_at_ = now + settings_.grace + limits::host_end_margin;
}

void FanOut::stop_running(int signal, Instant now, Effects& out) {
    stop_at_.reset();
    if (!kill_at_) kill_at_ = now + settings_.grace + limits::host_end_margin;
    signal_running(signal, out);
}

void FanOut::signal_running(int signal, Effects& out) const {
    for (const int host : nodes_)
        if (at(host).state == State::running) out.push_back(SendSignal{host, signal});
}

void FanOut::signalled(int signal, Instant now, Effects& out) {
    is_signalled_ = true;
    if (has_begun()) return stop_running(signal, now, out);
    is_finished_ = true;
    out.push_back(Finish{
        exit_codes::killed_by(signal),
        std::nullopt,
        "stopped by " + signal_name(signal) + " before every host was ready",
        true});
}

void FanOut::pass_deadlines(Instant now, Effects& out) {
    for (int host = 0; host < settings_.host_count; ++host) {
        const auto& place = at(host);
        if (!place.deadline || now < *place.deadline) continue;
        const bool is_copying = place.state == State::copying;
        const auto limit = is_copying ? limits::program_copy_timeout : settings_.connect_timeout;
        fail(
            host,
            (is_copying ? "the program was not copied within " : "no answer within ") +
                seconds_text(limit),
            now,
            out);
        out.push_back(Kill{host});
    }
    begin_when_complete(out);
    if (stop_at_ && now >= *stop_at_) return stop_running(SIGTERM, now, out);
    if (!kill_at_ || now < *kill_at_) return;
    kill_at_ = std::nullopt;
    for (const int host : nodes_)
        if (at(host).state == State::running) out.push_back(Kill{host});
}

/// The node whose report is shown: a refused node, since that explains the ends of the others; else
/// the first that failed; else the first.
std::optional<int> FanOut::reporter() const {
    std::optional<int> best;
    const auto weight = [&](int host) {
        const auto& end = *at(host).end;
        return fan_out::is_refusal(end) ? 2 : fan_out::is_bad(end) ? 1 : 0;
    };
    for (const int host : nodes_) {
        if (!at(host).end->report) continue;
        if (!best || weight(host) > weight(*best)) best = host;
    }
    return best;
}

/// The host whose lost connection has ended the job: the signals that follow it explain all other
/// reports. They may come first, since the node there stops by SIGTERM when its connection ends.
std::optional<int> FanOut::lost_host() const {
    if (!first_failed_ || is_elastic()) return std::nullopt;
    const auto is_lost = [&](int host) { return fan_out::is_lost(*at(host).end); };
    if (is_lost(*first_failed_)) return first_failed_;
    const auto best = reporter();
    const bool is_stopped =
        best && at(*best).end->report->exit_code == exit_codes::killed_by(SIGTERM);
    if (!is_stopped || is_signalled_) return std::nullopt;
    const auto lost = std::find_if(nodes_.begin(), nodes_.end(), is_lost);
    return lost == nodes_.end() ? std::nullopt : std::optional{*lost};
}

void FanOut::finish(Effects& out) {
    is_finished_ = true;
    const auto best = reporter();
    const auto lost = lost_host();
    if (best && !lost && (!first_failed_ || is_elastic() || fan_out::is_bad(*at(*best).end))) {
        out.push_back(Finish{at(*best).end->report->exit_code, *best, "", false});
        return;
    }
    if (!first_failed_) {
        out.push_back(Finish{});
        return;
    }
    const auto& place = at(lost.value_or(*first_failed_));
    const auto& end = *place.end;
    if (fan_out::is_lost(end))
        out.push_back(Finish{
            exit_codes::node_lost,
            std::nullopt,
            (fan_out::is_silent(end) ? "ddprun on " + place.name + " ended without a report"
             : end.is_ssh
                 ? "the connection to " + place.name + " was lost, or ddprun was killed there"
                 : "ddprun on " + place.name + " was killed") +
                (end.words.empty() ? "" : ": " + end.words),
            false});
    else
        out.push_back(Finish{
            end.exit_code,
            std::nullopt,
            "ddprun on " + place.name + " ended without a report, with exit code " +
                std::to_string(end.exit_code) + (end.words.empty() ? "" : ": " + end.words),
            false});
}

std::string describe(const FanOut::Event& event) {
    return std::visit(
        Overloaded{
            [](FanOut::Began) { return std::string{"began"}; },
            [](const FanOut::Lacked& e) { return "host " + std::to_string(e.host) + " lacked it"; },
            [](const FanOut::Readied& e) { return "host " + std::to_string(e.host) + " readied"; },
            [](const FanOut::Refused& e) {
                return "host " + std::to_string(e.host) + " refused: " + e.reason;
            },
            [](const FanOut::Ended& e) {
                return "host " + std::to_string(e.host) + " ended with " +
                       std::to_string(e.end.exit_code) + (e.end.report ? " and a report" : "");
            },
            [](const FanOut::Signalled& e) { return "signalled " + signal_name(e.signal); },
            [](const FanOut::Forwarded& e) { return "forwarded " + signal_name(e.signal); },
            [](FanOut::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const FanOut::Effect& effect) {
    return std::visit(
        Overloaded{
            [](const FanOut::Connect& e) { return "connect host " + std::to_string(e.host); },
            [](const FanOut::SendProgram& e) {
                return "send program to host " + std::to_string(e.host);
            },
            [](const FanOut::Start& e) {
                return "start " + std::to_string(e.hosts.size()) + " nodes";
            },
            [](const FanOut::SendSignal& e) {
                return "send " + signal_name(e.signal) + " to host " + std::to_string(e.host);
            },
            [](const FanOut::Kill& e) { return "kill host " + std::to_string(e.host); },
            [](const FanOut::NoteFailed& e) {
                return "note host " + std::to_string(e.host) + ": " + e.reason;
            },
            [](const FanOut::Finish& e) {
                return "finish with " + std::to_string(e.exit_code) +
                       (e.reporter ? ", report of host " + std::to_string(*e.reporter)
                                   : ", " + e.reason);
            },
        },
        effect);
}

}  // namespace ddprun::launcher
