// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_runner.hpp"

#include "agent/channel/channel_server.hpp"
#include "agent/command/command_server.hpp"
#include "agent/keeper/keeper_link.hpp"
#include "agent/output/writer.hpp"
#include "agent/plan/output_plan.hpp"
#include "agent/process/inherited_state.hpp"
#include "agent/runner/effect_log.hpp"
#include "agent/runner/event_recorder.hpp"
#include "agent/runner/execute_command.hpp"
#include "agent/runner/explanation.hpp"
#include "agent/runner/health_hook.hpp"
#include "agent/runner/node_address.hpp"
#include "agent/runner/peer_calls.hpp"
#include "agent/runner/post_mortem.hpp"
#include "agent/runner/publish_report.hpp"
#include "agent/runner/rendezvous_access.hpp"
#include "agent/runner/round_stores.hpp"
#include "agent/runner/stack_views.hpp"
#include "agent/runner/step_finder.hpp"
#include "agent/runner/store_calls.hpp"
#include "agent/runner/worker_looks.hpp"
#include "agent/runner/worker_processes.hpp"
#include "agent/supervise/agent.hpp"
#include "agent/supervise/departure.hpp"
#include "agent/supervise/terminal_interrupts.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/driver.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/net/threads.hpp"
#include "rendezvous/server/listener.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::agent {
namespace {

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
    control::Node own_node(const AgentSide& keeper_side);
    void post(Agent::Event event) { driver_->post(std::move(event)); }

    void perform(Agent::Effect& effect);
    void find_store_clients(const Agent::FindStoreClients& order);
    template <class Work>
    void look(Work work);
    Result<std::optional<Endpoint>> enter_store(const Agent::SpawnWorkers& order);
    void spawn(const Agent::SpawnWorkers& order);
    std::string error_log_of(int local_rank) const;
    void explain(const Agent::ExplainFailure& order);
    void clean_up(int round);
    void post_worker_event(Agent::Event event);
    void on_signal(int signal, bool is_for_all_processes);
    void read_saves();
    bool is_for_attached_rank(int signal);
    void announce_attachment();
    void keep_original(int local_rank, PostMortem::Finding& finding);
    std::string original_of(const std::optional<control::Cause>& cause) const;
    void finish(const JobReport& report);
    void depart(Departure::Step step);
    void limit_departure(Duration limit, std::function<void()> on_limit);
    void leave();

    const AgentConfig& config_;
    boost::asio::io_context io_{1};
    Random random_;
    /// Of the node's temporary error files; on no page and in no message.
    const Nonce error_folder_ = make_nonce(random_);
    // The keeper takes its end for ours: only the console's last bytes come after everything else.
    KeeperLink keeper_;
    Writer console_;
    std::optional<EventRecorder> events_;
    RoundStores stores_;
    PostMortem post_mortem_;
    channel::ChannelServer channels_;
    command::CommandServer commands_;
    StackViews stack_views_;
    HealthHook health_;
    StepFinder step_finder_;
    WorkerProcesses workers_;
    std::shared_ptr<server::Listener> peers_;
    PeerCalls peer_calls_;
    RendezvousAccess rendezvous_;
    std::unique_ptr<net::Driver<Agent>> driver_;
    control::Node node_;
    /// Of the current round.
    std::optional<RoundPlan> plan_;
    /// What the agent that has the store takes this node's streams to come from; empty: there is no
    /// tunnel.
    std::string tunnel_;
    /// The error file that may become the parent's.
    struct Original {
        int rank;
        int round;
        std::string text;
    };
    std::optional<Original> original_;
    TerminalInterrupts interrupts_;
    bool has_announced_attachment_ = false;
    NodeAddress address_{config_.own_name_problem};
    Departure departure_{config_.rendezvous.etcd.has_value()};
    boost::asio::steady_timer departure_timer_;
    bool is_job_over_ = false;
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
               progress.round = plan_->assignment.round;
               const auto& ranks = progress.ranks;
               if (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) {
                       return rank.progress.step.has_value();
                   }))
                   workers_.step_seen();
               post(Agent::ProgressRead{std::move(progress)});
           },
           [this](std::vector<RankSave> ranks) {
               post(Agent::SavesRead{plan_->assignment.round, std::move(ranks)});
           }}),
      commands_(
          io_,
          ::getuid(),
          keeper_side.keeper,
          random_,
          [this](const command::LocalCommands::Perform& order) {
              const CommandTarget target{
                  driver_->machine(), config_, rendezvous_, workers_, stack_views_};
              return execute(order, driver_->now(), target, [this](Agent::Event event) {
                  post(std::move(event));
              });
          }),
      stack_views_(
          io_,
          {[this](BlockingThread::Work work) { post_mortem_.look(std::move(work)); },
           [this] { return driver_->now(); },
           [this](int caller, control::CommandReply reply) {
               commands_.answer(caller, std::move(reply));
           }}),
      health_(
          io_, config, start, [this](Agent::HealthChecked checked) { post(std::move(checked)); }),
      // The first worker of its node.
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
          make_nonce(random_).to_string(),
          {[this](int connection) {
               if (const auto handed = keeper_.hand_up(connection); !handed)
                   log::warning("keeper.not_notified", {{"reason", handed.error().describe()}});
           },
           [this](Agent::Event event) { post(std::move(event)); },
           [this] { depart(departure_.server_idle()); },
           [this] { leave(); },
           [this](std::function<void(server::StoreSurvey)> answer) {
               stores_.survey(std::move(answer));
           }}),
      node_(own_node(keeper_side)),
      departure_timer_(io_) {
    // No thread that logs waits for the console.
    log::set_sink([this](std::string line) { console_.write(STDERR_FILENO, std::move(line)); });
}

AgentRunner::~AgentRunner() {
    // The threads that could still log end before the console does.
    log::set_sink(nullptr);
}

control::Node AgentRunner::own_node(const AgentSide& keeper_side) {
    auto node = config_.join.node;
    node.nonce = make_nonce(random_);
    node.pid = keeper_side.keeper;
    node.user = ::getuid();
    return node;
}

int AgentRunner::run() {
    const auto peer_port = listen_for_peers();
    if (!peer_port) {
        log::error("peers.not_listening", {{"reason", peer_port.error().describe()}});
        return exit_codes::internal_error;
    }
    driver_ = std::make_unique<net::Driver<Agent>>(
        io_, "agent", Agent{config_, node_, *peer_port, random_}, [this](Agent::Effect& effect) {
            perform(effect);
        });
    events_.emplace(config_, driver_->now());
    post(Agent::Began{});
    io_.run();
    // What is still to be written to the server goes out with the handlers that are ready.
    io_.restart();
    io_.poll();
    return exit_code_;
}

/// Where neighbours send their probes.
std::optional<PeerCalls::Security> AgentRunner::peer_security() {
    if (!config_.secret) return std::nullopt;
    return PeerCalls::Security{*config_.secret, [this] { return driver_->machine().node().nonce; }};
}

Result<std::uint16_t> AgentRunner::listen_for_peers() {
    auto acceptor = listen_in_range(io_, own_listen_host(config_), own_ports(config_), random_);
    if (!acceptor) return acceptor.error();
    error_code ec;
    const auto port = acceptor->local_endpoint(ec).port();
    peers_ = std::make_shared<server::Listener>(
        std::move(*acceptor),
        [this](net::Tcp::socket socket) { peer_calls_.take(std::move(socket)); },
        server::Listener::Callers::own_user_on_loopback);
    peers_->start();
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
                // Of a members-only store the tunnel shows it.
                if (config_.has_members_store()) return;
                check_store(io_, e.store, [this, round = e.round](std::string failure) {
                    post(Agent::StoreChecked{round, std::move(failure)});
                });
            },
            [&](const Agent::FindStoreClients& e) { find_store_clients(e); },
            [&](const Agent::LookAtWorkers& e) {
                // Ctrl-Z has stopped them.
                if (workers_.is_suspended()) return post(Agent::WorkersSeen{e.round, {}});
                look([e] { return look_at_workers(e); });
            },
            [&](const Agent::CheckHealth& e) { health_.run(e.reason); },
            [&](const Agent::GiveNotice& e) {
                auto note = e.note;
                if (plan_ && plan_->local_store) note.store = *plan_->local_store;
                give_notice(io_, std::move(note), [this, round = e.round] {
                    post(Agent::NoticeGiven{round});
                });
            },
            [&](const Agent::ExplainFailure& e) { explain(e); },
            [&](const Agent::CleanUpRound& e) { clean_up(e.round); },
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
            [&](const Agent::AnswerCommand& e) { commands_.answer(e.id, reply_of(e)); },
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
            [&](const auto&) { log_effect(effect, config_); },
        },
        effect);
}

void AgentRunner::find_store_clients(const Agent::FindStoreClients& order) {
    const bool is_own = plan_ && plan_->assignment.round == order.round && plan_->local_store;
    const auto port = is_own ? plan_->local_store->port : order.port;
    look([order, port, tunnel = tunnel_] { return look_for_store_clients(order, port, tunnel); });
}

/// The answer of `work`, which may block, comes as an event.
template <class Work>
void AgentRunner::look(Work work) {
    post_mortem_.look([this, work = std::move(work)]() -> BlockingThread::Answer {
        return [this, found = work()]() mutable { post(std::move(found)); };
    });
}

/// Where the workers of this node reach the round's store, if not where it is; without it they are
/// not started.
Result<std::optional<Endpoint>> AgentRunner::enter_store(const Agent::SpawnWorkers& order) {
    tunnel_.clear();
    if (!config_.has_members_store()) return std::optional<Endpoint>{};
    const auto& assignment = order.assignment;
    const auto round = assignment.round;
    const auto port = stores_.enter(
        {order.incarnation,
         round,
         {assignment.master_addr, assignment.master_port},
         assignment.group_rank == 0},
        [this, round](StoreDoor::Reached reached) {
            if (plan_ && plan_->assignment.round == round) tunnel_ = std::move(reached.name);
            if (reached.is_first) post(Agent::StoreChecked{round, std::move(reached.failure)});
        });
    if (!port) return port.error();
    return std::optional{Endpoint{"127.0.0.1", *port}};
}

void AgentRunner::spawn(const Agent::SpawnWorkers& order) {
    const auto& assignment = order.assignment;
    events_->assigned(assignment, driver_->now());
    const auto nonce = driver_->machine().node().nonce;
    const LogPlace place{
        config_.join.run_id,
        order.incarnation,
        nonce.to_short_string(),
        config_.join.node.host,
        assignment.round,
        assignment.restart_count};
    const auto node_addr = NodeAddress::towards(assignment, order.node_addr);
    const auto local_store = enter_store(order);
    plan_ = RoundPlan{
        assignment,
        config_.join.run_id,
        order.incarnation,
        nonce,
        error_folder_,
        node_addr,
        address_.gloo_interface(node_addr),
        local_store ? *local_store : std::nullopt,
        config_.join.max_restarts,
        config_.shares_store,
        config_.join.node.host,
        log_folder(config_.output, place),
        latest_link_target(config_.output, place),
        config_.join.settings.grace,
        channels_.begin_round(config_.worker.nproc, assignment.done_step)};
    step_finder_.begin_round();
    if (plan_->logs.is_none())
        keeper_.note_error_files(
            temporary_error_file_stem(config_.worker, *plan_), config_.worker.nproc);
    if (!local_store)
        return workers_.refuse(
            "the workers' store cannot be reached here: " + local_store.error().describe());
    if (!config_.shares_store) stores_.wait_until_closed();
    announce_attachment();
    workers_.spawn(
        *plan_,
        post_mortem_.beginning(
            plan_->logs.is_none() ? temporary_error_folder(config_.worker, *plan_)
                                  : std::string{}));
    log_round_started(assignment, config_.join.max_restarts);
}

void AgentRunner::post_worker_event(Agent::Event event) {
    if (const auto* exited = std::get_if<Agent::WorkerExited>(&event)) {
        // It may have ended because it had saved.
        read_saves();
        channels_.read_last_progress();
        const auto attached = attached_local_rank(config_.worker, *plan_);
        if (exited->local_rank == attached && interrupts_.is_for_job(exited->exit))
            post(Agent::Signalled{SIGINT});
        const bool is_expected =
            exited->exit.is_success() || driver_->machine().phase() == Agent::Phase::stopping;
        log::write(
            is_expected ? log::Level::info : log::Level::warning,
            "worker.exited",
            {{"round", plan_->assignment.round},
             {"rank", plan_->assignment.rank_base + exited->local_rank},
             {"local_rank", exited->local_rank},
             {"exit", exited->exit.describe()}});
        events_->worker_ended(exited->local_rank, exited->exit, is_expected, driver_->now());
    } else if (const auto* spawned = std::get_if<Agent::WorkerSpawned>(&event)) {
        events_->worker_started(spawned->local_rank, spawned->pid, driver_->now());
    }
    post(std::move(event));
}

/// The file that the worker's standard error goes to; empty: none.
std::string AgentRunner::error_log_of(int local_rank) const {
    const int rank = plan_->assignment.rank_base + local_rank;
    if (is_at_terminal(config_.worker, Stream::err, rank)) return {};
    const auto route = route_of(config_.output, Stream::err, local_rank, rank);
    return route.to_file ? plan_->logs.file_of_worker(Stream::err, local_rank, rank) : "";
}

void AgentRunner::explain(const Agent::ExplainFailure& order) {
    PostMortem::Death death;
    death.error_file = error_file_path(config_.worker, *plan_, order.local_rank);
    // Beside the log files it is kept, and named in the report.
    death.keeps_error_file = !plan_->logs.is_none();
    auto kept = death.keeps_error_file ? death.error_file : std::string{};
    auto log = error_log_of(order.local_rank);
    if (const auto* group = driver_->machine().group()) {
        const auto& worker = group->worker(order.local_rank);
        death.pid = worker.pid();
        if (worker.exit()) death.end = to_worker_end(*worker.exit());
    }
    const auto progress = channels_.progress_of(order.local_rank);
    // As Python ends after an exception.
    const bool has_unseen_error = death.end.kind == control::WorkerEnd::Kind::exited &&
                                  death.end.value == 1 && ::isatty(STDERR_FILENO) == 1;
    auto done = [this, order, kept, log, has_unseen_error, progress](PostMortem::Finding finding) {
        auto explained = explanation(order, finding, {kept, log, progress});
        if (plan_ && plan_->assignment.round == order.round) {
            if (explained.details.empty())
                explained.details = workers_.stderr_tail(order.local_rank);
            keep_original(order.local_rank, finding);
        }
        explain_by_python(explained, config_.worker, has_unseen_error);
        post(std::move(explained));
    };
    post_mortem_.examine(std::move(death), std::move(done));
}

/// As the machine chooses: the first, unless it is a secondary failure and this one is not.
void AgentRunner::keep_original(int local_rank, PostMortem::Finding& finding) {
    if (!finding.report) return;
    const auto& assignment = plan_->assignment;
    const bool is_first = !original_ || original_->round != assignment.round;
    if (!is_first && finding.report->is_secondary) return;
    original_ =
        Original{assignment.rank_base + local_rank, assignment.round, std::move(finding.original)};
}

std::string AgentRunner::original_of(const std::optional<control::Cause>& cause) const {
    const bool is_it = cause && cause->worker && original_ &&
                       cause->worker->rank == original_->rank && cause->round == original_->round;
    return is_it ? original_->text : std::string{};
}

void AgentRunner::clean_up(int round) {
    workers_.forget();
    channels_.end_round();
    events_->round_left(driver_->now());
    stores_.leave(round);
    if (!plan_ || plan_->assignment.round != round || !plan_->logs.is_none()) return;
    std::vector<std::string> paths;
    for (int local_rank = 0; local_rank < config_.worker.nproc; ++local_rank)
        paths.push_back(error_file_path(config_.worker, *plan_, local_rank));
    post_mortem_.remove(std::move(paths));
}

void AgentRunner::on_signal(int signal, bool is_for_all_processes) {
    const auto& forwarded = config_.forwarded_signals;
    if (std::find(forwarded.begin(), forwarded.end(), signal) != forwarded.end())
        return is_for_all_processes ? void() : workers_.forward(signal);
    if (is_for_attached_rank(signal)) return workers_.signal_attached(signal);
    if (signal == SIGTSTP) return workers_.suspend();
    if (signal == SIGCONT) return workers_.go_on();
    if (!departure_.is_finished()) {
        // What is done about it depends on them.
        read_saves();
        return post(Agent::Signalled{signal, is_for_all_processes});
    }
    // Only the server is left, waiting for other nodes.
    if (signal == SIGINT) leave();
}

void AgentRunner::read_saves() {
    if (plan_) post(Agent::SavesRead{plan_->assignment.round, channels_.saves()});
}

/// A window that changes its size, and a Ctrl-C that is not for the job.
bool AgentRunner::is_for_attached_rank(int signal) {
    const auto& attachment = config_.worker.attachment;
    if (!attachment || !attachment->has_terminal) return false;
    if (signal == SIGWINCH) return true;
    if (signal != SIGINT) return false;
    const bool has_rank =
        workers_.has_attached() && driver_->machine().phase() != Agent::Phase::stopping;
    return interrupts_.next(has_rank, driver_->now()) == TerminalInterrupts::Receiver::rank;
}

void AgentRunner::announce_attachment() {
    if (has_announced_attachment_ || !attached_local_rank(config_.worker, *plan_)) return;
    has_announced_attachment_ = true;
    log_attachment(*config_.worker.attachment, config_.join.settings.grace);
}

void AgentRunner::finish(const JobReport& report) {
    exit_code_ = report.exit_code;
    events_->finished(report, driver_->now());
    console_.write(STDERR_FILENO, final_text_of(report, config_.report));
    write_reports(report, config_.report, original_of(report.root_cause), post_mortem_);
    is_job_over_ = is_over(report);
    depart(departure_.finished(rendezvous_.is_hosting(), is_job_over_));
}

void AgentRunner::depart(Departure::Step step) {
    switch (step) {
        case Departure::Step::none: return;
        case Departure::Step::wait_for_nodes:
            // It may never have had a job: this agent itself may not have got as far.
            rendezvous_.ask_if_server_is_idle();
            return limit_departure(config_.join.settings.lease + limits::drain_margin, [this] {
                depart(departure_.waited());
            });
        case Departure::Step::release_server:
            rendezvous_.release(is_job_over_);
            return limit_departure(limits::etcd_answer_timeout, [this] { leave(); });
        case Departure::Step::leave: return leave();
    }
}

void AgentRunner::limit_departure(Duration limit, std::function<void()> on_limit) {
    departure_timer_.expires_after(limit);
    departure_timer_.async_wait(
        [on_limit = std::move(on_limit)](const boost::system::error_code& ec) {
            if (!ec) on_limit();
        });
}

void AgentRunner::leave() {
    keeper_.remove_error_files();
    io_.stop();
}

}  // namespace

int run_agent(const AgentConfig& config, const InheritedState& start, AgentSide keeper_side) {
    net::prepare_descriptors();
    net::prepare_threads();
    AgentRunner runner(config, start, keeper_side);
    return runner.run();
}

}  // namespace ddprun::agent
