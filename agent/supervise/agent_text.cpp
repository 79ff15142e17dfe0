// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <string>
#include <string_view>
#include <type_traits>

namespace ddprun::agent {
namespace {

std::string link_text(int link) {
    return "link=" + std::to_string(link);
}

std::string worker_text(int local_rank) {
    return "local_rank=" + std::to_string(local_rank);
}

std::string round_text(int round) {
    return "round=" + std::to_string(round);
}

std::string trimmed_line(const std::string& line) {
    return std::string{trimmed(line)};
}

std::string answer_text(const std::optional<PeerAnswer>& answer) {
    return answer ? trimmed_line(encode(*answer)) : "nothing";
}

/// " [0 asked=12 saving 13]"
std::string ranks_text(const std::vector<RankSave>& ranks) {
    std::string text;
    for (const auto& rank : ranks) {
        text += " [" + std::to_string(rank.local_rank);
        if (rank.asked) text += " asked=" + std::to_string(*rank.asked);
        switch (rank.answer) {
            case RankSave::Answer::none: break;
            case RankSave::Answer::saving: text += " saving " + std::to_string(rank.step); break;
            case RankSave::Answer::saved: text += " saved " + std::to_string(rank.step); break;
            case RankSave::Answer::declined: text += " declined"; break;
        }
        text += ']';
    }
    return text;
}

/// "step=12 clean"
std::string kept_text(const control::KeptWorker& worker) {
    return "step=" + (worker.committed ? std::to_string(*worker.committed) : "none") +
           (worker.is_clean ? " clean" : " dirty");
}

std::string_view answer_name(Agent::HealthChecked::Answer answer) {
    using Answer = Agent::HealthChecked::Answer;
    switch (answer) {
        case Answer::fit: return "fit";
        case Answer::unfit: return "unfit";
        case Answer::unknown: return "unknown";
        case Answer::not_run: return "not run";
    }
    return "?";
}

template <class Effect>
std::string describe_effect(const Effect& effect) {
    if constexpr (std::is_constructible_v<ServerLink::Effect, Effect>)
        return describe(ServerLink::Effect{effect});
    else if constexpr (std::is_constructible_v<FailureReport::Effect, Effect>)
        return describe(FailureReport::Effect{effect});
    else
        return describe(WorkerGroup::Effect{effect});
}

}  // namespace

std::string describe(const Agent::Event& event) {
    using A = Agent;
    return std::visit(
        Overloaded{
            [](A::Began) { return std::string{"began"}; },
            [](const A::StoreOpened& e) { return "store opened port=" + std::to_string(e.port); },
            [](const A::StoreFailed& e) { return "store failed: " + e.reason; },
            [](A::HostingChanged e) {
                return std::string{e.is_hosting ? "hosting began" : "hosting ended"};
            },
            [](A::SuccessionChanged e) { return describe(ServerLink::Event{e}); },
            [](const A::LinkOpened& e) { return describe(ServerLink::Event{e}); },
            [](const A::LinkClosed& e) { return describe(ServerLink::Event{e}); },
            [](const A::ConnectRefused& e) { return describe(ServerLink::Event{e}); },
            [](const A::Received& e) {
                return "received " + link_text(e.link) + ' ' + control::describe(e.message);
            },
            [](const A::WorkerSpawned& e) {
                return "worker spawned " + worker_text(e.local_rank) +
                       " pid=" + std::to_string(e.pid);
            },
            [](const A::WorkerExited& e) {
                return "worker exited " + worker_text(e.local_rank) + ": " + e.exit.describe();
            },
            [](const A::WorkerRecoverable& e) { return describe(WorkerGroup::Event{e}); },
            [](const A::WorkerHeld& e) {
                return "worker held " + round_text(e.round) + ' ' +
                       worker_text(e.worker.local_rank) + ' ' + kept_text(e.worker);
            },
            [](const A::FailureExplained& e) { return describe(FailureReport::Event{e}); },
            [](const A::LeftoversCounted& e) {
                return "leftovers counted: " + std::to_string(e.count);
            },
            [](const A::StoreChecked& e) {
                return "store checked " + round_text(e.round) + ": " +
                       (e.failure.empty() ? "answered" : e.failure);
            },
            [](const A::NoticeGiven& e) { return describe(FailureReport::Event{e}); },
            [](const A::StoreWaited& e) {
                return "store waited port=" + std::to_string(e.port) + ' ' +
                       control::describe(control::AgentMessage{control::Heartbeat{0, e.wait}});
            },
            [](const A::StoreClientsFound& e) {
                return "store clients found " +
                       control::describe(
                           control::AgentMessage{control::Heartbeat{0, std::nullopt, e.clients}});
            },
            [](const A::ProgressRead& e) {
                return "progress read " + control::describe(control::AgentMessage{
                                              control::Heartbeat{0, {}, {}, e.progress}});
            },
            [](const A::WorkersSeen& e) {
                return "workers seen " + round_text(e.round) +
                       " workers=" + std::to_string(e.looks.size());
            },
            [](const A::SavesRead& e) {
                return "saves read " + round_text(e.round) + ranks_text(e.ranks);
            },
            [](const A::SaveShown& e) {
                return "save shown " + round_text(e.round) + " ballot=" + std::to_string(e.ballot) +
                       ranks_text(e.ranks);
            },
            [](const A::PeerAsked& e) {
                return "peer asked caller=" + std::to_string(e.caller) + ' ' +
                       trimmed_line(encode(e.probe));
            },
            [](const A::PeerAnswered& e) {
                return "peer answered ask=" + std::to_string(e.ask) + ' ' + answer_text(e.answer);
            },
            [](const A::Signalled& e) {
                return "signalled " + signal_name(e.signal) +
                       (e.is_for_all_processes ? ", as every process" : "");
            },
            [](const A::StopCommanded& e) {
                return "stop commanded: " + e.reason +
                       (e.grace ? ", grace " + seconds_text(*e.grace) : "");
            },
            [](const A::DrainCommanded& e) {
                return "drain commanded: " + control::describe(control::AgentMessage{e});
            },
            [](const A::UndrainCommanded& e) {
                return "undrain commanded: " + control::describe(control::AgentMessage{e});
            },
            [](const A::ResizeCommanded& e) {
                return "resize commanded: " + control::describe(control::AgentMessage{e});
            },
            [](const A::OrderPerformed& e) {
                return "order performed " + link_text(e.link) + " id=" + std::to_string(e.id) +
                       ": " + control::describe(e.reply);
            },
            [](const A::HealthChecked& e) {
                return "health checked: " + std::string{answer_name(e.answer)} +
                       (e.text.empty() ? "" : ": " + e.text);
            },
            [](const A::XidSeen& e) {
                return "xid seen local_ranks=" + std::to_string(e.local_ranks.size()) + ": " +
                       health::describe(e.line);
            },
            [](A::DeadlinePassed) { return std::string{"deadline passed"}; },
        },
        event);
}

std::string describe(const Agent::Effect& effect) {
    using A = Agent;
    return std::visit(
        Overloaded{
            [](A::OpenStore) { return std::string{"open store"}; },
            [](const A::CloseStore& e) { return "close store port=" + std::to_string(e.port); },
            [](const A::SpawnWorkers& e) {
                return "spawn workers " + round_text(e.assignment.round) +
                       " first_rank=" + std::to_string(e.assignment.rank_base) +
                       " world_size=" + std::to_string(e.assignment.world_size) +
                       " node_addr=" + e.node_addr +
                       (e.kept.empty() ? "" : " kept=" + std::to_string(e.kept.size()));
            },
            [](const A::CheckStore& e) {
                return "check store " + round_text(e.round) + ' ' + e.store.to_string();
            },
            [](const A::FindStoreClients& e) {
                return "find store clients " + round_text(e.round) +
                       " port=" + std::to_string(e.port);
            },
            [](const A::LookAtWorkers& e) { return "look at workers " + round_text(e.round); },
            [](const A::CheckHealth& e) {
                return "check health reason=" + std::string{name_of(e.reason)};
            },
            [](const A::CleanUpRound& e) {
                return "clean up " + round_text(e.round) +
                       (e.keeps_workers ? ", but the workers" : "");
            },
            [](const Neighbours::Ask& e) {
                return "ask " + e.to.to_string() + " ask=" + std::to_string(e.id) + ' ' +
                       trimmed_line(encode(e.probe));
            },
            [](const A::AnswerPeer& e) {
                return "answer caller=" + std::to_string(e.caller) + ' ' + answer_text(e.answer);
            },
            [](const A::SetFence& e) {
                return std::string{e.ends_at ? "set" : "clear"} + " fence";
            },
            [](const A::InterruptServer& e) { return "interrupt server: " + e.reason; },
            [](const A::NoteMissing& e) { return "note missing: " + e.reason; },
            [](const A::NoteInterrupt& e) { return "note interrupt: " + seconds_text(e.grace); },
            [](const A::NoteStopping& e) {
                return "note stopping " + round_text(e.round) + ": " + e.reason;
            },
            [](const A::ShowSave& e) {
                return "show save " + round_text(e.round) + ' ' + control::describe(e.save);
            },
            [](const A::NoteNotice& e) {
                return "note notice: " + e.reason + ", " + seconds_text(e.left) + " left";
            },
            [](const A::NoteSave& e) { return "note save step=" + std::to_string(e.step); },
            [](const A::NoteNoticeOver& e) { return "note notice over: " + e.reason; },
            [](const A::NoteDrained& e) { return "note drained: " + e.reason; },
            [](const A::NoteUnfit& e) { return "note unfit: " + e.reason; },
            [](const A::NoteHealthUnknown& e) { return "note health unknown: " + e.reason; },
            [](const A::NoteXid& e) { return "note xid: " + e.what + ", " + e.effect; },
            [](const A::NoteHang& e) { return "note hang: " + e.headline; },
            [](const A::PerformOrder& e) {
                return "perform " + link_text(e.link) + ' ' +
                       control::describe(control::ServerMessage{e.order});
            },
            [](const A::AnswerCommand& e) {
                return "answer command id=" + std::to_string(e.id) +
                       (e.is_done ? " done: " : " refused: ") + e.text;
            },
            [](const A::NoteStale& e) { return "note stale: " + e.what; },
            [](const A::NoteStuck& e) {
                return "note stuck: " + std::to_string(e.local_ranks.size()) + " workers, " +
                       std::to_string(e.leftover_count) + " others";
            },
            [](const A::Finish& e) {
                return "finish " + std::string{control::name_of(e.report.outcome)} +
                       " exit_code=" + std::to_string(e.report.exit_code);
            },
            [](const auto& of_a_part) { return describe_effect(of_a_part); },
        },
        effect);
}

std::string_view name_of(AgentInterface::CheckHealth::Reason reason) {
    using Reason = AgentInterface::CheckHealth::Reason;
    switch (reason) {
        case Reason::start: return "start";
        case Reason::failure: return "failure";
        case Reason::hang: return "hang";
        case Reason::xid: return "xid";
    }
    return "?";
}

std::string_view name_of(Agent::Phase phase) {
    switch (phase) {
        case Agent::Phase::joining: return "joining";
        case Agent::Phase::starting: return "starting";
        case Agent::Phase::running: return "running";
        case Agent::Phase::succeeded: return "succeeded";
        case Agent::Phase::stopping: return "stopping";
        case Agent::Phase::holding: return "holding";
        case Agent::Phase::done: return "done";
    }
    return "?";
}

}  // namespace ddprun::agent
