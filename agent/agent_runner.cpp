// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_runner.hpp"

#include "agent/channel/channel_server.hpp"
#include "agent/keeper/keeper_link.hpp"
#include "agent/output/writer.hpp"
#include "agent/process/inherited_state.hpp"
#include "agent/runner/attached_rank.hpp"
#include "agent/runner/command_executor.hpp"
#include "agent/runner/current_round.hpp"
#include "agent/runner/effect_log.hpp"
#include "agent/runner/event_recorder.hpp"
#include "agent/runner/failure_explainer.hpp"
#include "agent/runner/gpu_devices.hpp"
#include "agent/runner/gpu_errors.hpp"
#include "agent/runner/health_hook.hpp"
#include "agent/runner/peer_calls.hpp"
#include "agent/runner/post_mortem.hpp"
#include "agent/runner/publish_report.hpp"
#include "agent/runner/rendezvous_access.hpp"
#include "agent/runner/round_stores.hpp"
#include "agent/runner/step_finder.hpp"
#include "agent/runner/store_calls.hpp"
#include "agent/runner/timed_departure.hpp"
#include "agent/runner/worker_looks.hpp"
#include "agent/runner/worker_processes.hpp"
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/net/threads.hpp"

#include <boost/asio/io_context.hpp>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::agent {
namespace {

constexpr std::size_t max_early_xids = 64;

/// The shell of one Agent machine: performs its effects on the agent's thread and passes the
/// results to it.
class AgentRunner {
public:
    AgentRunner(const AgentConfig& config, const InheritedState& start, AgentSide keeper_side);
    ~AgentRunner();
    AgentRunner(const AgentRunner&) = delete;
    AgentRunner& operator=(const AgentRunner&) = delete;

    int run();

private:
    Result<std::uint16_t> listen_for_peers();
    std::optional<PeerCalls::Security> peer_security();
    control::Node own_node(pid_t keeper);
    void post(Agent::Event event) { driver_->post(std::move(event)); }

    void perform(Agent::Effect& effect);
    void find_store_clients(const Agent::FindStoreClients& order);
    template <class Work>
    void look(Work work);
    void find_users(health::XidLine line);
    void spawn(const Agent::SpawnWorkers& order);
    void clean_up(const Agent::CleanUpRound& order);
    void post_worker_event(Agent::Event event);
    void on_signal(int signal, bool is_for_all_processes);
    void read_saves();
    void finish(const JobReport& report);

    const AgentConfig& config_;
    boost::asio::io_context io_{1};
    Random random_;
    // The keeper takes the end of this object as the agent's end: only the console's last bytes may
    // come after it.
    KeeperLink keeper_;
    Writer console_;
    std::optional<EventRecorder> events_;
    RoundStores stores_;
    PostMortem post_mortem_;
    channel::ChannelServer channels_;
    CurrentRound round_;
    CommandExecutor commands_;
    HealthHook health_;
    GpuErrors gpu_errors_{io_, [this](health::XidLine line) { find_users(std::move(line)); }};
    StepFinder step_finder_;
    WorkerProcesses workers_;
    /// Errors of GPUs that came while workers were being started.
    std::vector<health::XidLine> early_xids_;
    /// Why workers of this round could not be started: each reason is one warning.
    std::set<std::string> unstarted_;
    PeerCalls peer_calls_;
    std::uint16_t peer_port_ = 0;
    RendezvousAccess rendezvous_;
    std::unique_ptr<net::Driver<Agent>> driver_;
    AttachedRank attached_rank_{config_.worker, config_.join.settings.grace, workers_};
    FailureExplainer explainer_{
        {config_,
         round_,
         workers_,
         post_mortem_,
         [this](int local_rank) { return channels_.progress_of(local_rank); }},
        [this](Agent::FailureExplained explained) { post(std::move(explained)); }};
    TimedDeparture departure_{
        io_,
        {config_.rendezvous.election.has_value(), config_.join.settings.lease},
        rendezvous_,
        keeper_};
    int exit_code_ = exit_codes::internal_error;
};

AgentRunner::AgentRunner(
    const AgentConfig& config, const InheritedState& start, AgentSide keeper_side)
    : config_(config),
      random_(seeded_by_the_system()),
      keeper_(
          io_,
          keeper_side,
          [this](int signal, bool is_for_all_processes) {
              on_signal(signal, is_for_all_processes && config_.is_signalled_as_a_whole);
          },
          [page = keeper_side.page] {
              kill_own_node(*page);
              std::_Exit(exit_codes::internal_error);
          }),
      console_(io_, [this] { workers_.resume_output(); }),
      stores_(
          io_,
          own_listen_host(config),
          own_ports(config),
          config.accepted,
          [this](std::uint16_t port, control::StoreWait wait) {
              post(Agent::StoreWaited{port, std::move(wait)});
          },
          RoundStores::members_of(config)),
      post_mortem_(io_),
      channels_(
          io_,
          {::getuid(), keeper_side.keeper},
          random_,
          {[this](control::NodeProgress progress) {
               progress.round = round_.number();
               const auto& ranks = progress.ranks;
               if (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) {
                       return rank.progress.step.has_value();
                   }))
                   workers_.step_seen();
               post(Agent::ProgressRead{std::move(progress)});
           },
           [this](std::vector<RankSave> ranks) {
               post(Agent::SavesRead{round_.number(), std::move(ranks)});
           },
           [this](int local_rank, bool is_recoverable) {
               post(Agent::WorkerRecoverable{local_rank, is_recoverable});
           },
           [this](int local_rank, const channel::Holding& holding) {
               post(Agent::WorkerHeld{
                   holding.round, {local_rank, holding.committed, holding.is_clean}});
           }}),
      round_(
          config,
          make_nonce(random_),
          stores_,
          {[this](const Agent::SpawnWorkers& order) {
               return channels_.begin_round(
                   config_.worker.nproc, order.assignment.done_step, order.kept);
           },
           [this](Agent::StoreChecked checked) { post(std::move(checked)); }}),
      commands_(
          io_,
          keeper_side.keeper,
          random_,
          {config,
           rendezvous_,
           workers_,
           post_mortem_,
           [this]() -> net::Driver<Agent>& { return *driver_; }}),
      health_(
          io_, config, start, [this](Agent::HealthChecked checked) { post(std::move(checked)); }),
      // Steps in the output are those of this node's first worker.
      step_finder_(
          config.output.progress_pattern,
          [this] { return driver_->now(); },
          [this](std::uint64_t step) { channels_.on_step_written(0, step); }),
      workers_(
          io_,
          config.worker,
          config.output,
          start,
          console_,
          keeper_,
          [this](std::string_view bytes) { step_finder_.read(bytes); },
          [this](Agent::Event event) { post_worker_event(std::move(event)); },
          [this] { return health_.pid(); }),
      peer_calls_(
          io_,
          {[this](int caller, PeerProbe probe) {
               post(Agent::PeerAsked{caller, probe});
           },
           [this](int ask, std::optional<PeerAnswer> answer) {
               post(Agent::PeerAnswered{ask, answer});
           }},
          limits::peer_answer_timeout,
          peer_security()),
      rendezvous_(
          io_,
          config,
          {peer_calls_,
           random_,
           [this] {
               return std::pair{driver_->machine().node().nonce, peer_port_};
           }},
          {[this](int connection) {
               if (const auto handed = keeper_.hand_up(connection); !handed)
                   log::warning("keeper.not_notified", {{"reason", handed.error().describe()}});
           },
           [this](Agent::Event event) { post(std::move(event)); },
           [this] { departure_.server_idle(); },
           [this] { departure_.leave(); },
           [this] { departure_.elected(); },
           [this] { departure_.released(); },
           [this](std::function<void(server::StoreSurvey)> answer) {
               stores_.survey(std::move(answer));
           }}) {
    // Threads that log never wait for the console.
    log::set_sink([this](std::string line) { console_.write(STDERR_FILENO, std::move(line)); });
}

AgentRunner::~AgentRunner() {
    // All threads that could still log end before the console does.
    log::set_sink(nullptr);
}

control::Node AgentRunner::own_node(pid_t keeper) {
    auto node = config_.join.node;
    node.nonce = make_nonce(random_);
    node.pid = keeper;
    node.user = ::getuid();
    return node;
}

int AgentRunner::run() {
    const auto peer_port = listen_for_peers();
    if (!peer_port) {
        log::error("peers.not_listening", {{"reason", peer_port.error().describe()}});
        return exit_codes::internal_error;
    }
    peer_port_ = *peer_port;
    driver_ = std::make_unique<net::Driver<Agent>>(
        io_,
        "agent",
        Agent{config_, own_node(keeper_.keeper()), peer_port_, random_},
        [this](Agent::Effect& effect) { perform(effect); });
    events_.emplace(config_, driver_->now());
    post(Agent::Began{});
    if (config_.follows_xids) gpu_errors_.follow();
    io_.run();
    // Runs the handlers that are ready, so that pending messages to the server are sent.
    io_.restart();
    io_.poll();
    return exit_code_;
}

/// The security of neighbours' probes; none: there is no secret.
std::optional<PeerCalls::Security> AgentRunner::peer_security() {
    if (!config_.secret) return std::nullopt;
    return PeerCalls::Security{*config_.secret, [this] { return driver_->machine().node().nonce; }};
}

Result<std::uint16_t> AgentRunner::listen_for_peers() {
    auto acceptor = listen_in_range(io_, own_listen_host(config_), own_ports(config_), random_);
    if (!acceptor) return acceptor.error();
    error_code ec;
    const auto port = acceptor->local_endpoint(ec).port();
    peer_calls_.listen(std::move(*acceptor));
    return port;
}

void AgentRunner::perform(Agent::Effect& effect) {
    std::visit(
        Overloaded{
            [&](Agent::OpenStore) {
                stores_.open([this](Result<std::uint16_t> port) {
                    if (port)
                        post(Agent::StoreOpened{*port});
                    else
                        post(Agent::StoreFailed{port.error().describe()});
                });
            },
            [&](const Agent::CloseStore& e) { stores_.close(e.port); },
            [&](const Agent::Connect& e) {
                rendezvous_.connect(e.link, e.may_host, e.unanswered_for);
            },
            [&](const Agent::Send& e) { rendezvous_.send(e.link, e.message); },
            [&](const Agent::CloseLink& e) { rendezvous_.close(e.link); },
            [&](const Agent::SpawnWorkers& e) { spawn(e); },
            [&](const Agent::CheckStore& e) {
                // A members-only store is checked by its tunnel.
                if (config_.has_members_store()) return;
                check_store(io_, e.store, [this, round = e.round](std::string failure) {
                    post(Agent::StoreChecked{round, std::move(failure)});
                });
            },
            [&](const Agent::FindStoreClients& e) { find_store_clients(e); },
            [&](const Agent::LookAtWorkers& e) {
                // Workers stopped by Ctrl-Z are not sampled.
                if (workers_.is_suspended()) return post(Agent::WorkersSeen{e.round, {}});
                look([e] { return look_at_workers(e); });
            },
            [&](const Agent::CheckHealth& e) { health_.run(e.reason); },
            [&](const Agent::GiveNotice& e) {
                auto note = e.note;
                if (round_.has_begun() && round_.plan().local_store)
                    note.store = *round_.plan().local_store;
                give_notice(io_, std::move(note), [this, round = e.round] {
                    post(Agent::NoticeGiven{round});
                });
            },
            [&](const Agent::ExplainFailure& e) {
                explainer_.explain(e, driver_->machine().group());
            },
            [&](const Agent::CleanUpRound& e) { clean_up(e); },
            [&](const Neighbours::Ask& e) { peer_calls_.ask(e); },
            [&](const Agent::AnswerPeer& e) { peer_calls_.answer(e.caller, e.answer); },
            [&](const Agent::SetFence& e) { keeper_.set_fence(e.ends_at); },
            [&](const Agent::InterruptServer& e) {
                rendezvous_.interrupt_server(e.signal, e.reason, e.grace);
            },
            [&](const Agent::ShowSave& e) {
                channels_.show_save(e.save, e.wait_ends_at);
                post(Agent::SaveShown{e.round, e.save.ballot, channels_.saves()});
            },
            [&](const Agent::NoteHang& e) {
                if (e.rows.empty()) return log_effect(effect, config_);
                console_.write(STDERR_FILENO, hang_text(e));
            },
            [&](const Agent::AnswerCommand& e) { commands_.answer(e); },
            [&](const Agent::PerformOrder& e) { commands_.perform(e); },
            [&](const Agent::Finish& e) { finish(e.report); },
            [&](const WorkerGroup::SignalLeader& e) {
                workers_.signal_leader(e.local_rank, e.signal);
            },
            [&](const WorkerGroup::SignalSession& e) {
                workers_.signal_session(e.local_rank, e.signal);
            },
            [&](const WorkerGroup::KillSession& e) { workers_.kill_session(e.local_rank); },
            [&](WorkerGroup::CancelSpawns) { workers_.cancel_spawns(); },
            [&](WorkerGroup::CountLeftovers) {
                post(Agent::LeftoversCounted{workers_.count_leftovers()});
            },
            [&](const WorkerGroup::SignalLeftovers& e) { workers_.signal_leftovers(e.signal); },
            [&](WorkerGroup::KillLeftovers) { workers_.kill_leftovers(); },
            [&](const WorkerGroup::HoldWorker& e) {
                channels_.hold(e.local_rank, round_.number(), e.time);
            },
            [&](const auto&) { log_effect(effect, config_); },
        },
        effect);
}

void AgentRunner::find_store_clients(const Agent::FindStoreClients& order) {
    look([order, path = round_.store_path(order.round, order.port)] {
        return look_for_store_clients(order, path.port, path.tunnel);
    });
}

void AgentRunner::find_users(health::XidLine line) {
    const auto* group = driver_->machine().group();
    std::optional<int> round;
    std::vector<GpuUser> workers;
    bool is_starting = false;
    if (group != nullptr) round = round_.number();
    for (int rank = 0; group != nullptr && rank < group->size(); ++rank) {
        const auto& worker = group->worker(rank);
        workers.push_back({rank, worker.pid(), worker.exit().has_value()});
        is_starting |= worker.pid() == 0 && !worker.exit();
    }
    // A worker may run before its start is known here.
    if (is_starting && early_xids_.size() < max_early_xids)
        return early_xids_.push_back(std::move(line));
    look([round, line = std::move(line), workers = std::move(workers)] {
        return Agent::XidSeen{round, line, users_of_gpu(line, workers)};
    });
}

/// Runs `work`, which may block, on another thread; its result is posted as an event.
template <class Work>
void AgentRunner::look(Work work) {
    post_mortem_.look([this, work = std::move(work)]() -> BlockingThread::Answer {
        return [this, found = work()]() mutable { post(std::move(found)); };
    });
}

void AgentRunner::spawn(const Agent::SpawnWorkers& order) {
    const auto& assignment = order.assignment;
    events_->assigned(assignment, driver_->now());
    const auto begun = round_.begin(order, driver_->machine().node().nonce);
    const auto& plan = round_.plan();
    step_finder_.begin_round();
    if (plan.logs.is_none())
        keeper_.note_error_files(
            temporary_error_file_stem(config_.worker, plan), config_.worker.nproc);
    if (!begun)
        return workers_.refuse(
            order.kept, "the workers' store cannot be reached here: " + begun.error().describe());
    if (!config_.shares_store) stores_.wait_until_closed();
    attached_rank_.announce(plan);
    workers_.spawn(
        plan,
        order.kept,
        post_mortem_.beginning(
            plan.logs.is_none() ? temporary_error_folder(config_.worker, plan) : std::string{}));
    // Afterwards: what they write in the new round has its place by then.
    for (const int local_rank : order.kept)
        channels_.go(
            local_rank, assignment.round, changed_environment(config_.worker, plan, local_rank));
    log_round_started(order, config_.join.max_restarts);
}

void AgentRunner::post_worker_event(Agent::Event event) {
    if (const auto* exited = std::get_if<Agent::WorkerExited>(&event)) {
        // The worker may have ended because it had saved, so its save state is read first.
        read_saves();
        channels_.read_last_progress();
        if (attached_rank_.ends_job(round_.plan(), exited->local_rank, exited->exit))
            post(Agent::Signalled{SIGINT});
        const bool is_expected =
            exited->exit.is_success() || driver_->machine().phase() == Agent::Phase::stopping;
        const bool is_repeated =
            std::holds_alternative<WorkerExit::NotStarted>(exited->exit.how()) &&
            !unstarted_.insert(exited->exit.describe()).second;
        log::write(
            is_expected || is_repeated ? log::Level::info : log::Level::warning,
            "worker.exited",
            {{"round", round_.number()},
             {"rank", round_.plan().assignment.rank_base + exited->local_rank},
             {"local_rank", exited->local_rank},
             {"exit", exited->exit.describe()}});
        events_->worker_ended(exited->local_rank, exited->exit, is_expected, driver_->now());
    } else if (const auto* spawned = std::get_if<Agent::WorkerSpawned>(&event)) {
        events_->worker_started(spawned->local_rank, spawned->pid, driver_->now());
    }
    post(std::move(event));
    for (auto& line : std::exchange(early_xids_, {}))
        find_users(std::move(line));
}

void AgentRunner::clean_up(const Agent::CleanUpRound& order) {
    const int round = order.round;
    early_xids_.clear();
    unstarted_.clear();
    if (!order.keeps_workers) {
        workers_.forget();
        channels_.end_round();
    }
    events_->round_left(driver_->now());
    stores_.leave(round);
    if (!round_.is(round) || !round_.plan().logs.is_none()) return;
    std::vector<std::string> paths;
    for (int local_rank = 0; local_rank < config_.worker.nproc; ++local_rank)
        paths.push_back(error_file_path(config_.worker, round_.plan(), local_rank));
    post_mortem_.remove(std::move(paths));
}

void AgentRunner::on_signal(int signal, bool is_for_all_processes) {
    const auto& forwarded = config_.forwarded_signals;
    if (std::find(forwarded.begin(), forwarded.end(), signal) != forwarded.end())
        return is_for_all_processes ? void() : workers_.forward(signal);
    const auto& agent = driver_->machine();
    const bool is_stopping = agent.phase() == Agent::Phase::stopping;
    if (attached_rank_.take(signal, is_stopping, driver_->now())) return;
    if (signal == SIGTSTP) return workers_.suspend();
    if (signal == SIGCONT) return workers_.go_on();
    if (!departure_.has_begun()) {
        // The agent's decision about the signal depends on the save state.
        read_saves();
        return post(Agent::Signalled{signal, is_for_all_processes});
    }
    departure_.signalled(signal);
}

void AgentRunner::read_saves() {
    if (round_.has_begun()) post(Agent::SavesRead{round_.number(), channels_.saves()});
}

void AgentRunner::finish(const JobReport& report) {
    exit_code_ = report.exit_code;
    events_->finished(report, driver_->now());
    console_.write(STDERR_FILENO, final_text_of(report, config_.report));
    write_reports(report, config_.report, explainer_.original_of(report.root_cause), post_mortem_);
    departure_.begin(is_over(report));
}

}  // namespace

int run_agent(const AgentConfig& config, const InheritedState& start, AgentSide keeper_side) {
    net::prepare_descriptors();
    net::prepare_threads();
    AgentRunner runner(config, start, keeper_side);
    return runner.run();
}

}  // namespace ddprun::agent
