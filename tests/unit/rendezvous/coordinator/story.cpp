// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rendezvous/coordinator/story.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <algorithm>
#include <sstream>

namespace ddprun::coordinator {

std::vector<std::string> words(const std::string& text) {
    std::istringstream in{text};
    std::vector<std::string> found;
    for (std::string word; in >> word;)
        found.push_back(word);
    return found;
}

Nonce nonce_of(const std::string& node) {
    std::array<std::uint8_t, 16> bytes{};
    std::copy_n(node.begin(), std::min(node.size(), bytes.size()), bytes.begin());
    return Nonce{bytes};
}

Story::Story(std::string nnodes, int restarts, Tweak terms) {
    const auto colon = nnodes.find(':');
    const auto plus = nnodes.find('+');
    terms_.nodes.min = std::stoi(nnodes);
    terms_.nodes.max =
        colon == std::string::npos ? terms_.nodes.min : std::stoi(nnodes.substr(colon + 1));
    if (plus != std::string::npos) terms_.nodes.spares = std::stoi(nnodes.substr(plus + 1));
    terms_.run_id = "job";
    terms_.max_restarts = restarts;
    terms_.nproc = 2;
    if (terms) terms(terms_);
    coordinator_.emplace(options_);
}

void Story::is_hosted() {
    options_.hosted_run_id = "job";
    coordinator_.emplace(options_);
}

void Story::has_voters() {
    options_.voter = control::VoterPlace{"10.0.0.1:9", nonce_of("a")};
    coordinator_.emplace(options_);
}

void Story::bounds_tenants(std::size_t nodes) {
    options_.most_nodes_of_tenant = nodes;
    coordinator_.emplace(options_);
}

void Story::restart_server() {
    coordinator_.emplace(options_);
    connections_.clear();
    lines_.clear();
}

void Story::post(Coordinator::Event event) {
    std::vector<Coordinator::Effect> effects;
    coordinator_->handle(std::move(event), now_, effects);
    REQUIRE(coordinator_->are_ledgers_complete(now_));
    for (const auto& effect : effects)
        note(effect);
}

void Story::note(const Coordinator::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const Send& send) {
                const auto name = name_of(send.connection);
                const auto* ack = std::get_if<control::HeartbeatAck>(&send.message);
                if (ack != nullptr && !ack->clients_of) return;
                if (const auto* welcome = std::get_if<control::Welcome>(&send.message))
                    tokens_[name] = welcome->token;
                if (const auto* assignment = std::get_if<control::Assignment>(&send.message))
                    assignments_[name] = *assignment;
                if (const auto* stop = std::get_if<control::Stop>(&send.message))
                    stops_[name] = *stop;
                if (const auto* result = std::get_if<control::JobResult>(&send.message))
                    results_[name] = *result;
                lines_.push_back(name + " " + control::describe(send.message));
            },
            [&](const Close& close) {
                lines_.push_back(name_of(close.connection) + " closed: " + close.reason);
            },
            [&](const Changed& changed) {
                lines_.push_back(changed.state + ": " + changed.reason);
            },
            // In `status()`, too, where its test finds it.
            [](const Ranked&) {},
            [](const Record&) {},
            [](const SteppedDown&) {},
            [&](const ChangeVoters& change) { lines_.push_back(describe(Effect{change})); },
            [&](const Commanded& commanded) { lines_.push_back(describe(Effect{commanded})); },
            [&](const Waiting& waiting) { lines_.push_back(describe(Effect{waiting})); },
            [&](const Hung& hung) { lines_.push_back(describe(Effect{hung})); },
        },
        effect);
}

Lines Story::output() {
    return std::exchange(lines_, {});
}

std::string Story::name_of(ConnectionId connection) const {
    const auto found = names_.find(connection);
    return found == names_.end() ? "?" : found->second;
}

Story::Place Story::place_of(const std::string& node) const {
    const auto found = places_.find(node);
    if (found != places_.end()) return found->second;
    return {"10.0.0." + std::to_string(static_cast<int>(node.back())), "10.0.0.1"};
}

void Story::lives_at(const std::string& node, std::string peer_addr, std::string server_addr) {
    places_[node] = {std::move(peer_addr), std::move(server_addr)};
}

void Story::is_of_tenant(const std::string& node, std::string tenant) {
    tenants_[node] = std::move(tenant);
}

void Story::command(
    const std::string& caller, control::JobCommand command, bool has_proved_secret) {
    proves_secret_ = has_proved_secret;
    const auto id = connect(caller);
    proves_secret_ = false;
    post(Coordinator::Received{id, std::move(command)});
}

ConnectionId Story::connect(const std::string& node) {
    const ConnectionId id{next_connection_++};
    const auto place = place_of(node);
    connections_[node] = id;
    names_[id] = node;
    const auto token = nonce_of("token " + std::to_string(id.value));
    post(Coordinator::Connected{
        id,
        place.peer_addr,
        place.peer_addr + ":5000",
        place.server_addr,
        {},
        token,
        tenants_[node],
        proves_secret_});
    return id;
}

control::Join Story::join_of(const std::string& node, const Tweak& tweak) const {
    auto join = terms_;
    join.node.nonce = nonce_of(node);
    join.node.host = node;
    join.node.pid = 100;
    join.socket_addr = place_of(node).peer_addr + ":5000";
    join.store_port = static_cast<std::uint16_t>(20'000 + node.back());
    join.peer_port = 7;
    if (options_.voter) join.settings.failover = control::Failover::nodes;
    if (tweak) tweak(join);
    return join;
}

void Story::join(const std::string& node, const Tweak& tweak) {
    const auto id = connect(node);
    post(Coordinator::Received{id, join_of(node, tweak)});
}

void Story::resume(
    const std::string& node,
    control::NodeState state,
    const std::function<void(control::Resume&)>& tweak) {
    const auto id = connect(node);
    control::Resume resume;
    resume.join = join_of(node);
    resume.incarnation = nonce_of("a").to_string();
    resume.state = state;
    if (const auto found = assignments_.find(node); found != assignments_.end())
        resume.assignment = found->second;
    if (const auto found = tokens_.find(node); found != tokens_.end()) resume.token = found->second;
    if (tweak) tweak(resume);
    post(Coordinator::Received{id, std::move(resume)});
}

void Story::say(const std::string& node, control::AgentMessage message) {
    post(Coordinator::Received{connections_.at(node), std::move(message)});
}

void Story::show_progress(
    const std::string& node, int round, std::vector<control::RankProgress> ranks) {
    say(node,
        control::Heartbeat{
            0, std::nullopt, std::nullopt, control::NodeProgress{round, std::move(ranks), {}}});
}

void Story::drop(const std::string& node) {
    post(Coordinator::Disconnected{connections_.at(node)});
}

void Story::interrupt(int signal) {
    post(Coordinator::Interrupted{signal, "stopped by " + signal_name(signal)});
}

void Story::voters_changed(control::Voters voters) {
    post(Coordinator::VotersChanged{"job", std::move(voters)});
}

void Story::witness_changed(std::optional<control::VoterPlace> witness) {
    post(Coordinator::WitnessChanged{std::move(witness)});
}

void Story::started(const std::string& nodes, int round) {
    for (const auto& node : words(nodes))
        say(node, control::Started{round, 0});
}

void Story::reached(const std::string& nodes, int count, int round) {
    for (const auto& node : words(nodes))
        say(node, control::Started{round, count});
}

void Story::succeeded(const std::string& nodes, int round) {
    for (const auto& node : words(nodes))
        say(node, control::Succeeded{round});
}

void Story::ready(const std::string& nodes, int round) {
    for (const auto& node : words(nodes))
        say(node,
            control::Ready{round, static_cast<std::uint16_t>(21'000 + node.back()), terms_.nproc});
}

void Story::failed(const std::string& node, int round, const Tweak&) {
    failed_with(node, round, 1ms, [](control::WorkerFailure&) {});
}

void Story::failed_with(
    const std::string& node,
    int round,
    Duration age,
    const std::function<void(control::WorkerFailure&)>& tweak) {
    control::WorkerFailure failure;
    const auto found = assignments_.find(node);
    failure.rank = found == assignments_.end() ? 0 : found->second.rank_base;
    failure.pid = 411;
    failure.end = {control::WorkerEnd::Kind::exited, 7, false};
    failure.message = "exited with code 7";
    failure.details = "Traceback";
    tweak(failure);
    say(node, control::Failed{round, age, failure, std::nullopt});
}

void Story::leave(const std::string& node, int signal) {
    say(node, control::Leave{signal_name(signal) + " on " + node, signal});
}

void Story::run(const std::string& nodes) {
    for (const auto& node : words(nodes))
        join(node);
    started(nodes);
    output();
}

void Story::pass(Duration length, const std::string& alive) {
    const auto end = now_ + length;
    auto beat_at = now_ + limits::heartbeat_interval;
    for (;;) {
        auto next = end;
        if (const auto deadline = coordinator_->next_deadline())
            next = std::min(next, std::max(*deadline, now_));
        const bool beats = !alive.empty() && beat_at <= next;
        if (beats) next = beat_at;
        now_ = next;
        if (beats) {
            for (const auto& node : words(alive))
                say(node, control::Heartbeat{++next_seq_});
            beat_at += limits::heartbeat_interval;
            continue;
        }
        const auto deadline = coordinator_->next_deadline();
        if (deadline && *deadline <= now_) {
            post(Coordinator::DeadlinePassed{});
            continue;
        }
        if (now_ == end) return;
    }
}

void Story::doze(Duration length) {
    now_ += length;
    post(Coordinator::DeadlinePassed{});
}

const control::Assignment& Story::assignment(const std::string& node) const {
    return assignments_.at(node);
}

std::string Story::result(const std::string& node) const {
    const auto found = results_.find(node);
    return found == results_.end() ? "" : control::describe(control::ServerMessage{found->second});
}

TimelineStatus Story::timeline(int first_round) const {
    return coordinator_->status_turn(now_, {Scope::everything(), {}, 0, 0, 1, first_round})
        .jobs.at(0)
        .timeline.value();
}

JobStatus Story::status() const {
    return coordinator_->status(now_).back();
}

void speaks_version_2(control::Join& join) {
    join.versions = {1, 2};
}

Story job_of(const std::string& nnodes, const std::string& nodes, int restarts) {
    Story job{nnodes, restarts, speaks_version_2};
    job.run(nodes);
    return job;
}

Story job_of_two_with_room() {
    Story job{"1:3", 3, speaks_version_2};
    job.join("a");
    job.join("b");
    job.pass(31s, "a b");
    job.started("a b");
    job.output();
    return job;
}

}  // namespace ddprun::coordinator
