// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace ddprun::sim {
namespace {

constexpr std::size_t most_typed_endpoints = 3;

}  // namespace

Cluster::Cluster(std::uint64_t seed, Options options)
    : world_(seed),
      options_(std::move(options)),
      network_(world_, options_.weather),
      etcd_(network_),
      checkers_(
          options_.restarts,
          options_.settings.restart.final_codes,
          options_.nodes.unit.value_or(1)) {
    if (is_elected()) {
        checkers_.expect_election();
        if (options_.has_witness) witness_.start();
        return;
    }
    const bool is_hosted = !options_.hosted_by.empty();
    server_ = std::make_unique<Server>(
        world_,
        is_hosted ? Server::Options{"10.0.0.1", options_.hosted_by, "job"}
                  : Server::Options{"10.0.0.250", "server", std::nullopt});
}

Host& Cluster::start(const std::string& name, const std::string& run_id) {
    agent::AgentConfig config;
    config.join.run_id = run_id;
    config.rendezvous.endpoint = {"rendezvous", 29'400};
    if (is_elected())
        config.rendezvous.election =
            agent::ElectionPlan{agent::EtcdPlan{{{"etcd", 2379}}, "/ddprun"}};
    config.join.nodes = options_.nodes;
    config.join.settings = options_.settings;
    if (options_.engine == Engine::voters) config.join.settings.failover = control::Failover::nodes;
    config.join.max_restarts = options_.restarts;
    config.join.node.host = name;
    config.worker.nproc = options_.workers;
    config.worker.program = "trainer";
    const auto number = static_cast<int>(in_order_.size()) + 1;
    const auto addr = "10.0.0." + std::to_string(number);
    auto host = std::make_unique<Host>(
        *this, name, addr, std::move(config), 1000 * number, options_.manners);
    auto& started = *host;
    in_order_.push_back(&started);
    by_addr_[addr] = &started;
    hosts_[name] = std::move(host);
    if (name == options_.hosted_by) started.host_server();
    if (options_.engine == Engine::voters && typed_endpoints_.size() < most_typed_endpoints)
        typed_endpoints_.push_back(name);
    if (is_elected()) started.become_candidate();
    started.begin();
    return started;
}

std::vector<Host*> Cluster::hosts() {
    return in_order_;
}

Host* Cluster::host_at(const std::string& addr) {
    const auto found = by_addr_.find(addr);
    return found == by_addr_.end() ? nullptr : found->second;
}

RoundStore* Cluster::store_at(const std::string& addr, std::uint16_t port) {
    auto* host = host_at(addr);
    return host == nullptr ? nullptr : host->store(port);
}

Host* Cluster::leader(const std::string& run_id) {
    const auto found = std::find_if(in_order_.begin(), in_order_.end(), [&](const Host* host) {
        return host->run_id() == run_id && host->is_leading();
    });
    return found == in_order_.end() ? nullptr : *found;
}

std::uint64_t Cluster::recorded_epoch(const std::string& run_id) {
    if (options_.engine == Engine::voters)
        return checkers_.votes().epoch_of_leader(run_id, world_.now());
    const auto leader = etcd_.leader(run_id);
    return leader ? leader->epoch : 0;
}

std::string Cluster::other_leader(const Host& host) const {
    const auto found = std::find_if(in_order_.begin(), in_order_.end(), [&](const Host* other) {
        return other != &host && other->run_id() == host.run_id() && other->is_leading();
    });
    return found == in_order_.end() ? std::string{} : (*found)->name();
}

const Server* Cluster::acting_server(const std::string& run_id) {
    if (!is_elected()) return server_.get();
    auto* host = leader(run_id);
    return host == nullptr ? nullptr : host->own_server();
}

bool Cluster::is_record_lost() {
    std::set<Nonce> voters;
    for (const auto* host : in_order_)
        if (const auto* voter = host->voter())
            voters.insert(voter->names().begin(), voter->names().end());
    if (witness_.is_up()) voters.insert(witness_.nonce());
    return checkers_.votes().is_lost("job", voters);
}

bool Cluster::are_voters_found() {
    return std::any_of(
        typed_endpoints_.begin(), typed_endpoints_.end(), [&](const std::string& name) {
            const auto* voter = hosts_.at(name)->voter();
            return voter != nullptr && voter->known();
        });
}

std::string Cluster::job_state() {
    const auto* server = acting_server();
    if (server == nullptr) return {};
    const auto jobs = server->coordinator().status(world_.now());
    return jobs.empty() ? std::string{} : jobs.back().state;
}

int Cluster::round() {
    const auto* server = acting_server();
    if (server == nullptr) return -1;
    const auto jobs = server->coordinator().status(world_.now());
    return jobs.empty() ? -1 : jobs.back().round;
}

bool Cluster::is_training() {
    if (job_state() != "running") return false;
    bool is_any = false;
    for (const auto* host : in_order_) {
        if (!host->is_alive() || host->machine().group() == nullptr) continue;
        const auto phase = host->machine().phase();
        if (phase == agent::Agent::Phase::starting || phase == agent::Agent::Phase::stopping)
            return false;
        if (phase != agent::Agent::Phase::running) continue;
        if (!host->is_training()) return false;
        is_any = true;
    }
    return is_any;
}

bool Cluster::is_done() {
    return std::all_of(in_order_.begin(), in_order_.end(), [](const Host* host) {
        return !host->is_alive() || host->has_left();
    });
}

void Cluster::finish_workers() {
    for (auto* host : in_order_)
        for (int local_rank = 0; local_rank < options_.workers; ++local_rank)
            if (host->is_alive())
                host->end_worker(local_rank, agent::WorkerExit{agent::WorkerExit::Exited{0}});
}

bool Cluster::until(const std::function<bool()>& condition, Duration longest) {
    const auto end = world_.now() + longest;
    while (!condition()) {
        const auto next = world_.next();
        if (!next || *next > end) return false;
        step();
    }
    return true;
}

void Cluster::step() {
    world_.step();
    if (is_elected())
        for (auto* host : in_order_)
            host->look_at_own_server();
    if (options_.hosted_by.empty() || !server_ || !server_->is_up()) return;
    // A hosting `ddprun` exits when it has ended and no node needs its server.
    const auto found = hosts_.find(options_.hosted_by);
    const bool has_ended = found != hosts_.end() && found->second->report();
    if (has_ended && server_->coordinator().is_idle()) server_->kill();
}

void Cluster::pass(Duration length) {
    const auto end = world_.now() + length;
    while (world_.next() && *world_.next() <= end)
        step();
    world_.advance_to(end);
}

}  // namespace ddprun::sim
