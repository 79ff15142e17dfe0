// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/host.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"
#include "rendezvous/control/versions.hpp"
#include "tests/sim/cluster.hpp"

#include <signal.h>

#include <cerrno>
#include <utility>

namespace ddprun::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration shortest_spawn = 1ms;
constexpr Duration shortest_start = 5ms;
constexpr Duration shortest_end = 2ms;
/// The timeout of init_process_group.
constexpr Duration rendezvous_timeout = 60s;

control::Node node_of(const std::string& name, int pid, const Nonce& nonce) {
    control::Node node;
    node.nonce = nonce;
    node.host = name;
    node.pid = pid;
    return node;
}

}  // namespace

// ---- the host -----------------------------------------------------------------------------------

Host::Host(
    Cluster& cluster,
    std::string name,
    std::string addr,
    agent::AgentConfig config,
    int pid,
    Manners manners)
    : cluster_(cluster),
      world_(cluster.world()),
      name_(std::move(name)),
      addr_(std::move(addr)),
      run_id_(config.join.run_id),
      manners_(manners),
      next_pid_(pid + 1),
      nonce_(make_nonce(world_.random())),
      agent_(
          world_,
          Agent{std::move(config), node_of(name_, pid, nonce_), voter_port, world_.random()},
          [this](Agent::Effect& effect) { perform(effect); }) {}

Host::~Host() = default;

void Host::note(const std::string& what) {
    world_.note(name_ + " " + what);
}

void Host::later(Duration delay, std::function<void()> action) {
    world_.after(delay, [this, action = std::move(action)] {
        if (is_asleep_)
            delayed_.push_back(action);
        else
            action();
    });
}

/// Does nothing if that process is gone by then.
void Host::later_by_worker(
    int local_rank, Duration delay, std::function<void(WorkerProcess&)> action) {
    const int pid = workers_.at(local_rank).pid;
    later(delay, [this, local_rank, pid, action = std::move(action)] {
        const auto found = workers_.find(local_rank);
        if (found != workers_.end() && found->second.pid == pid) action(found->second);
    });
}

Duration Host::up_to(Duration longest, Duration shortest) {
    const auto number = [](Duration length) { return static_cast<int>(length.count() / 1'000); };
    return std::chrono::microseconds{world_.any(number(shortest), number(longest))};
}

bool Host::is_willing() const {
    return is_alive_ && !is_stopped_ && !is_asleep_ && !report_ && !is_ending_;
}

void Host::begin() {
    if (is_hosting_) agent_.post(Agent::HostingChanged{true});
    agent_.post(Agent::Began{});
}

bool Host::is_training() const {
    const auto* group = machine().group();
    if (group == nullptr || static_cast<int>(workers_.size()) != group->size()) return false;
    for (const auto& [local_rank, worker] : workers_)
        if (!worker.is_training) return false;
    return true;
}

void Host::finish_training() {
    std::vector<int> done;
    for (const auto& [local_rank, worker] : workers_)
        if (worker.is_training) done.push_back(local_rank);
    for (const int local_rank : done)
        die(local_rank, agent::WorkerExit{agent::WorkerExit::Exited{0}});
}

RoundStore* Host::store(std::uint16_t port) {
    const auto found = stores_.find(port);
    return found == stores_.end() ? nullptr : found->second.get();
}

void Host::perform(Agent::Effect& effect) {
    std::visit(
        Overloaded{
            [&](Agent::OpenStore) {
                const auto port = next_port_++;
                stores_[port] = std::make_unique<RoundStore>(world_);
                agent_.post(Agent::StoreOpened{port});
            },
            [&](const Agent::CloseStore& e) {
                if (const auto found = stores_.find(e.port); found != stores_.end()) {
                    found->second->close();
                    // Destroyed later, since its callbacks may be on the call stack.
                    world_.after(0s, [gone = std::shared_ptr(std::move(found->second))] {});
                    stores_.erase(found);
                }
            },
            [&](const Agent::Connect& e) { connect(e); },
            [&](const Agent::Send& e) {
                const auto found = links_.find(e.link);
                // A stopped agent may not have noticed that its link is closed.
                if (found == links_.end()) return;
                if (const auto* join = std::get_if<control::Join>(&e.message)) {
                    note("joins nproc=" + std::to_string(join->nproc));
                    if (candidate_ && candidate_->voting)
                        candidate_->voting->answer_as(join->node.nonce);
                }
                if (const auto* resume = std::get_if<control::Resume>(&e.message))
                    note("resumes " + std::string{control::name_of(resume->state)});
                if (const auto* ready = std::get_if<control::Ready>(&e.message))
                    note("ready round=" + std::to_string(ready->round));
                found->second.link->send(Link::client, control::encode(with_record(e.message)));
            },
            [&](const Agent::CloseLink& e) {
                const auto found = links_.find(e.link);
                if (found == links_.end()) return;
                if (found->second.link) found->second.link->close(Link::client);
                links_.erase(found);
            },
            [&](const Agent::SpawnWorkers& e) { spawn(e); },
            [&](const Agent::CheckStore& e) { check_store(e); },
            [&](const Agent::GiveNotice& e) { give_notice(e); },
            [&](const Agent::ExplainFailure& e) {
                later(1ms, [this, e] {
                    agent_.post(Agent::FailureExplained{e.round, e.local_rank, "", "", false});
                });
            },
            [&](const Agent::ShowSave& e) { show_save(e); },
            [&](const Agent::NoteNotice& e) { note("gives notice: " + e.reason); },
            [](const Agent::NoteSave&) {},
            [&](const Agent::NoteNoticeOver& e) { note("leaves: " + e.reason); },
            [&](const Agent::NoteDrained& e) {
                note("is " + e.reason);
                is_ending_ = true;
            },
            [&](const Agent::NoteHang& e) { note("hangs: " + e.headline); },
            [&](const Agent::NoteUnfit& e) { note("is unfit: " + e.reason); },
            [&](const Agent::NoteHealthUnknown& e) { note("is not checked: " + e.reason); },
            [](const Agent::NoteXid&) {},
            // Simulated workers have no memory to sample, and simulated nodes no health check.
            [](const Agent::LookAtWorkers&) {},
            [](const Agent::CheckHealth&) {},
            [&](const Agent::AnswerCommand& e) {
                note((e.is_done ? "hears: " : "hears no: ") + e.text);
            },
            [&](const Agent::InterruptServer& e) {
                auto& server = candidate_ ? *own_server() : cluster_.server();
                if (candidate_) candidate_->is_interrupted = true;
                server.interrupt(e.signal, e.reason, e.grace);
            },
            [&](const Agent::NoteStandby& e) { note("stands by: " + e.reason); },
            [&](const Agent::NoteMissing& e) { note("waits: " + e.reason); },
            [&](const Agent::NoteInterrupt&) {},
            [&](const Agent::NoteStopping& e) { note("stops: " + e.reason); },
            [&](const Agent::NoteServerLost& e) { note("lost the server: " + e.reason); },
            [&](Agent::NoteServerBack) { note("has the server back"); },
            [&](const Agent::Finish& e) {
                report_ = e.report;
                note(
                    "ends " + std::string{control::name_of(e.report.outcome)} +
                    " exit_code=" + std::to_string(e.report.exit_code));
                cluster_.checkers().on_exit(name_, e.report.exit_code);
                if (candidate_) depart(candidate_->departure.finished(departure_facts()));
            },
            [&](const agent::WorkerGroup::SignalLeader& e) {
                const auto found = workers_.find(e.local_rank);
                if (found == workers_.end()) return;
                found->second.was_signalled = true;
                cluster_.checkers().on_worker_signalled(worker_name(e.local_rank));
                if (found->second.is_stubborn) return;
                kill_process(e.local_rank, e.signal, up_to(manners_.slowest_end, shortest_end));
            },
            [&](const agent::WorkerGroup::KillSession& e) {
                const auto found = workers_.find(e.local_rank);
                if (found == workers_.end()) return;
                found->second.was_signalled = true;
                cluster_.checkers().on_worker_signalled(worker_name(e.local_rank));
                kill_process(e.local_rank, SIGKILL, 0s);
            },
            [&](agent::WorkerGroup::CancelSpawns) {
                for (const int local_rank : std::exchange(unspawned_, {}))
                    agent_.post(Agent::WorkerExited{
                        local_rank,
                        agent::WorkerExit{agent::WorkerExit::NotExecuted{ECANCELED, "trainer"}}});
            },
            [&](agent::WorkerGroup::CountLeftovers) { agent_.post(Agent::LeftoversCounted{0}); },
            [&](const agent::Neighbours::Ask& e) { ask_peer(e); },
            [&](const Agent::AnswerPeer& e) { answer_peer(e); },
            [&](const Agent::SetFence& e) { set_fence(e.ends_at); },
            [&](const agent::WorkerGroup::HoldWorker& e) { hold_worker(e); },
            // Simulated workers have no children. The orders below need no line in the record.
            [](const agent::WorkerGroup::SignalSession&) {},
            [](const agent::WorkerGroup::SignalLeftovers&) {},
            [](agent::WorkerGroup::KillLeftovers) {},
            [](const Agent::CleanUpRound&) {},
            [](const Agent::PerformOrder&) {},
            // No store of this world reports a wait.
            [](const Agent::FindStoreClients&) {},
            [](const Agent::NoteWaiting&) {},
            [](const Agent::NoteStale&) {},
            [](const Agent::NoteStuck&) {},
        },
        effect);
}

// ---- control connections ------------------------------------------------------------------------

void Host::connect(const Agent::Connect& order) {
    links_[order.link].port = next_client_port_++;
    if (candidate_) return seek(order.link, order.unanswered_for == Duration{});
    open(order.link, &cluster_.server(), cluster_.server().place());
}

void Host::open(int number, Server* server, const std::string& place) {
    auto& control = links_[number];
    control.is_opened = true;
    const bool is_answered = cluster_.network().connects(name_, place);
    const bool is_up = server != nullptr && server->is_up();
    if (is_answered && is_up) {
        control.link = cluster_.network().connect(name_, place);
        control.link->attach(
            Link::client,
            {[this, number](const std::string& bytes) { received(number, bytes); },
             [this, number] { give_up_link(number, Agent::ConnectError::lost, "end of file"); }});
        server->accept(control.link, addr_, control.port);
    }
    if (is_answered && !is_up)
        return later(1ms, [this, number] {
            give_up_link(number, Agent::ConnectError::refused, "simulated network");
        });
    later(limits::connect_attempt_timeout, [this, number] {
        const auto found = links_.find(number);
        if (found == links_.end() || found->second.is_greeted) return;
        if (found->second.link) found->second.link->close(Link::client);
        give_up_link(number, Agent::ConnectError::no_answer, "simulated network");
    });
}

void Host::give_up_link(int number, Agent::ConnectError error, const std::string& reason) {
    if (links_.erase(number) == 1) agent_.post(Agent::LinkClosed{number, error, reason});
}

void Host::received(int number, const std::string& bytes) {
    const auto link = links_.find(number);
    if (link == links_.end()) return;
    link->second.decoder.append(bytes);
    for (;;) {
        const auto found = links_.find(number);
        if (found == links_.end()) return;
        auto message = found->second.decoder.next();
        require(message.has_value(), "the server speaks the protocol");
        if (!*message) return;
        if (const auto* hello = std::get_if<control::Hello>(&**message)) {
            found->second.is_greeted = true;
            agent_.post(Agent::LinkOpened{
                number,
                addr_ + ":" + std::to_string(found->second.port),
                control::common_version(hello->versions)});
            continue;
        }
        if (const auto* welcome = std::get_if<control::Welcome>(&**message))
            incarnation_ = welcome->incarnation;
        if (const auto* result = std::get_if<control::JobResult>(&**message))
            cluster_.checkers().on_result(
                {name_, run_id_, incarnation_, *result, world_.now(), !is_stopped_ && !is_asleep_});
        if (const auto* voters = std::get_if<control::Voters>(&**message))
            if (candidate_ && candidate_->voting) {
                candidate_->voting->known(*voters);
                note_succession();
            }
        agent_.post(Agent::Received{number, std::move(**message)});
    }
}

// ---- processes ----------------------------------------------------------------------------------

void Host::spawn(const Agent::SpawnWorkers& order) {
    spawning_round_ = order.assignment.round;
    save_.reset();
    const int count = machine().group()->size();
    for (const int local_rank : order.kept)
        keep_worker(order, local_rank);
    for (int local_rank = 0; local_rank < count; ++local_rank)
        if (std::find(order.kept.begin(), order.kept.end(), local_rank) == order.kept.end())
            unspawned_.insert(local_rank);
    later(up_to(manners_.slowest_spawn, shortest_spawn), [this, order, count] {
        for (int local_rank = 0; local_rank < count; ++local_rank) {
            const bool is_wanted =
                spawning_round_ == order.assignment.round && unspawned_.erase(local_rank) == 1;
            if (is_wanted && is_alive_) start_worker(order, local_rank);
        }
    });
}

void Host::start_worker(const Agent::SpawnWorkers& order, int local_rank) {
    WorkerProcess worker;
    worker.local_rank = local_rank;
    worker.pid = next_pid_++;
    const int pid = worker.pid;
    workers_[local_rank] = std::move(worker);
    note(
        "started rank=" + std::to_string(order.assignment.rank_base + local_rank) +
        " round=" + std::to_string(order.assignment.round));
    agent_.post(Agent::WorkerSpawned{local_rank, pid});
    if (manners_.can_hold)
        later_by_worker(
            local_rank,
            up_to(manners_.slowest_start, shortest_start),
            [this, local_rank](WorkerProcess&) {
                if (is_alive_) agent_.post(Agent::WorkerRecoverable{local_rank, true});
            });
    enter_round(order, local_rank);
}

/// A worker that is new or kept begins its part of the round.
void Host::enter_round(const Agent::SpawnWorkers& order, int local_rank) {
    auto& worker = workers_.at(local_rank);
    worker.rank = order.assignment.rank_base + local_rank;
    worker.assignment = order.assignment;
    cluster_.checkers().on_worker_started(
        {name_,
         run_id_,
         order.incarnation,
         order.assignment,
         local_rank,
         worker.pid,
         world_.now(),
         worker.held});
    worker.held.reset();
    const int round = order.assignment.round;
    later_by_worker(
        local_rank,
        up_to(manners_.slowest_start, shortest_start),
        [this, local_rank, round](WorkerProcess& process) {
            if (process.assignment.round == round && !process.held) meet_others(local_rank);
        });
    later_by_worker(
        local_rank, rendezvous_timeout, [this, local_rank, round](WorkerProcess& process) {
            if (process.is_training || process.held || process.assignment.round != round) return;
            if (!cluster_.network().was_disturbed())
                cluster_.checkers().on_waited_in_vain(name_, incarnation_, process.assignment);
            die(local_rank, agent::WorkerExit{agent::WorkerExit::Exited{1}});
        });
}

/// The part of init_process_group that matters: registers in the store and waits for all workers.
void Host::meet_others(int local_rank) {
    auto& worker = workers_.at(local_rank);
    const auto& assignment = worker.assignment;
    const auto* master = cluster_.host_at(assignment.master_addr);
    const bool is_answered =
        master != nullptr && cluster_.network().connects(name_, master->name());
    auto* store = cluster_.store_at(assignment.master_addr, assignment.master_port);
    if (store == nullptr || !is_answered)
        // Tries again, like a client, until its timeout.
        return later_by_worker(
            local_rank,
            500ms,
            [this, local_rank, round = assignment.round](WorkerProcess& process) {
                if (process.assignment.round == round && !process.held) meet_others(local_rank);
            });
    worker.link = cluster_.network().connect(name_, master->name());
    const int pid = worker.pid;
    worker.link->attach(
        Link::client,
        {[this, local_rank, pid](const std::string& bytes) {
             continue_rendezvous(local_rank, pid, bytes);
         },
         [this, local_rank, pid] {
             const auto found = workers_.find(local_rank);
             if (found == workers_.end() || found->second.pid != pid) return;
             if (!found->second.is_training && !found->second.held)
                 die(local_rank, agent::WorkerExit{agent::WorkerExit::Exited{1}});
         }});
    store->accept(worker.link);
    worker.session = std::make_unique<client::ClientSession>(
        client::ClientSession::Greeting::validate_and_ping, 7);
    worker.session->send(wire::Add{"arrived", 1});
    worker.session->send(wire::Barrier{"all", worker.assignment.world_size});
    worker.link->send(Link::client, std::string{worker.session->output()});
    worker.session->sent(worker.session->output().size());
}

void Host::continue_rendezvous(int local_rank, int pid, const std::string& bytes) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end() || found->second.pid != pid) return;
    auto& worker = found->second;
    worker.session->receive(bytes);
    for (;;) {
        const auto reply = worker.session->next();
        require(reply.has_value(), "the store speaks the protocol");
        if (!*reply) return;
        if (const auto* arrived = std::get_if<wire::Number>(&**reply))
            cluster_.checkers().on_arrived(incarnation_, worker.assignment, arrived->number);
        if (!std::holds_alternative<wire::StopWaiting>(**reply)) continue;
        worker.is_training = true;
        // Every rank has the source's state now.
        if (worker.assignment.state) worker.committed = worker.assignment.state->step;
        take_step(local_rank);
    }
}

void Host::die(int local_rank, agent::WorkerExit exit) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end()) return;
    if (found->second.link) found->second.link->close(Link::client);
    const int pid = found->second.pid;
    const bool counts = !found->second.was_signalled && !found->second.held;
    if (is_alive_ && counts && !exit.is_success())
        cluster_.checkers().on_round_failed(
            {run_id(), incarnation_, found->second.assignment.round});
    workers_.erase(found);
    world_.note(worker_name(local_rank) + " " + exit.describe());
    cluster_.checkers().on_worker_ended(name_, pid);
    if (is_alive_) agent_.post(Agent::WorkerExited{local_rank, std::move(exit)});
}

bool Host::reaches(const Endpoint& store) const {
    const auto* master = cluster_.host_at(store.host);
    return master != nullptr && cluster_.network().connects(name_, master->name()) &&
           cluster_.store_at(store.host, store.port) != nullptr;
}

void Host::check_store(const Agent::CheckStore& order) {
    const bool is_reached = reaches(order.store);
    later(is_reached ? 1ms : limits::store_reachability_timeout, [this, order, is_reached] {
        if (!is_alive_) return;
        if (!is_reached) cluster_.checkers().on_round_failed({run_id(), incarnation_, order.round});
        agent_.post(Agent::StoreChecked{
            order.round, is_reached ? std::string{} : "no answer from " + order.store.to_string()});
    });
}

/// Kills it as by a signal.
void Host::kill_process(int local_rank, int signal, Duration delay) {
    later_by_worker(local_rank, delay, [this, local_rank, signal](WorkerProcess& process) {
        process.was_killed = true;
        if (process.is_stuck) return;
        die(local_rank, agent::WorkerExit{agent::WorkerExit::Killed{signal, false}});
    });
}

// ---- the keeper ---------------------------------------------------------------------------------

void Host::set_fence(std::optional<Instant> ends_at) {
    fence_ = ends_at;
    if (!ends_at) return;
    world_.at(*ends_at + limits::keeper_fence_margin, [this] { watch_fence(); });
}

/// The keeper needs no agent for that, and reads the end of the fence after every wake-up.
void Host::watch_fence() {
    if (!is_alive_ || is_asleep_ || report_) return;
    if (!fence_ || world_.now() < *fence_ + limits::keeper_fence_margin) return;
    note("is past its fence");
    kill();
}

// ---- what can happen to it ----------------------------------------------------------------------

void Host::end_worker(int local_rank, agent::WorkerExit exit) {
    die(local_rank, std::move(exit));
}

void Host::make_stubborn(int local_rank) {
    if (const auto found = workers_.find(local_rank); found != workers_.end())
        found->second.is_stubborn = true;
}

void Host::stick(int local_rank) {
    const auto found = workers_.find(local_rank);
    if (found == workers_.end()) return;
    found->second.is_stuck = true;
    cluster_.checkers().on_worker_stuck(name_, found->second.pid);
}

void Host::let_go() {
    for (auto& [local_rank, worker] : workers_)
        if (std::exchange(worker.is_stuck, false) && worker.was_killed)
            kill_process(local_rank, SIGKILL, 0s);
}

void Host::signal(int signal) {
    note("gets " + signal_name(signal));
    if (report_ && candidate_) return depart(candidate_->departure.signalled(signal));
    is_ending_ = true;
    show_saves();
    agent_.post(Agent::Signalled{signal});
}

void Host::command(Agent::Event event) {
    if (is_willing()) agent_.post(std::move(event));
}

void Host::kill() {
    if (!is_alive_ || is_asleep_) return;
    note("is killed");
    end_everything();
    for (const auto& [port, store] : stores_)
        store->close();
    for (const auto& [number, control] : links_)
        if (control.link) control.link->close(Link::client);
    links_.clear();
    if (is_hosting_) cluster_.server().kill();
    if (own_server() != nullptr) own_server()->kill();
}

void Host::end_everything() {
    is_alive_ = false;
    agent_.freeze();
    if (candidate_) {
        candidate_->lease.freeze();
        if (candidate_->voting) candidate_->voting->freeze();
    }
    while (!workers_.empty())
        die(workers_.begin()->first, agent::WorkerExit{agent::WorkerExit::Killed{SIGKILL, false}});
}

void Host::switch_off() {
    if (!is_alive_) return;
    note("has no power any more");
    cluster_.network().switch_off(name_);
    end_everything();
    if (is_hosting_) cluster_.server().switch_off();
    if (own_server() != nullptr) own_server()->switch_off();
}

void Host::stop_agent() {
    if (!is_alive_ || is_stopped_ || is_asleep_ || report_) return;
    note("has its agent stopped");
    is_stopped_ = true;
    pause_agent();
}

void Host::continue_agent() {
    if (!is_stopped_) return;
    is_stopped_ = false;
    if (!is_alive_) return;
    note("has its agent continued");
    resume_agent();
}

void Host::pause_agent() {
    cluster_.network().disturb();
    agent_.pause();
    for (const auto& [port, store] : stores_)
        store->pause();
    if (is_hosting_) cluster_.server().pause();
    if (!candidate_) return;
    candidate_->lease.pause();
    if (candidate_->voting) candidate_->voting->pause();
    if (own_server() != nullptr) own_server()->pause();
}

/// Its threads continue in any order.
void Host::resume_candidate() {
    const bool is_server_first = world_.any(0, 1) == 0;
    if (is_server_first && own_server() != nullptr) own_server()->resume();
    const bool is_voting_first = candidate_->voting && world_.any(0, 1) == 0;
    if (is_voting_first) candidate_->voting->resume();
    candidate_->lease.resume();
    if (candidate_->voting) candidate_->voting->resume();
    if (own_server() != nullptr) own_server()->resume();
}

void Host::resume_agent() {
    if (is_hosting_) cluster_.server().resume();
    // The agent may open and close ports now.
    std::vector<std::uint16_t> ports;
    for (const auto& [port, store] : stores_)
        ports.push_back(port);
    for (const auto port : ports)
        if (auto* open = store(port)) open->resume();
    const bool is_agent_first = candidate_ && world_.any(0, 1) == 0;
    if (is_agent_first) agent_.resume();
    if (candidate_) resume_candidate();
    agent_.resume();
}

void Host::suspend() {
    if (!is_alive_ || is_asleep_ || is_stopped_) return;
    note("sleeps");
    is_asleep_ = true;
    cluster_.network().switch_off(name_);
    cluster_.checkers().on_host_asleep(name_);
    pause_agent();
}

void Host::wake_up() {
    if (!is_asleep_) return;
    note("wakes up");
    is_asleep_ = false;
    cluster_.network().switch_on(name_);
    resume_agent();
    watch_fence();
    for (const auto& action : std::exchange(delayed_, {}))
        if (is_alive_) action();
    // A process may run after its wake-up until everything past its fence is ended: no lease
    // excludes that.
    world_.after(10ms, [this] {
        if (!is_asleep_) cluster_.checkers().on_host_awake(name_);
    });
}

bool Host::has_just_broken() const {
    return broken_at_ && world_.now() - *broken_at_ < 2 * limits::reconnect_grace;
}

void Host::cut() {
    note("is cut off");
    cluster_.network().isolate(name_);
}

void Host::heal() {
    note("is reachable again");
    cluster_.network().readmit(name_);
}

void Host::break_connection(bool for_both) {
    note("loses its connection");
    broken_at_ = world_.now();
    std::vector<std::shared_ptr<Link>> broken;
    for (const auto& [number, control] : links_)
        if (control.link) broken.push_back(control.link);
    for (const auto& link : broken) {
        // The server's side first: otherwise it would be closed by what the client's side does now.
        if (for_both) link->reset(Link::server);
        link->reset(Link::client);
    }
}

}  // namespace ddprun::sim
