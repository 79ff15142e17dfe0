// SPDX-License-Identifier: Apache-2.0
#include "agent/supervise/agent.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/control/text.hpp"

#include <string>

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

}  // namespace

std::string describe(const Agent::Event& event) {
    using A = Agent;
    return std::visit(
        Overloaded{
            [](A::Began) { return std::string{"began"}; },
            [](const A::StoreOpened& e) { return "store opened port=" + std::to_string(e.port); },
            [](const A::StoreFailed& e) { return "store failed: " + e.reason; },
            [](A::HostingStarted) { return std::string{"hosting started"}; },
            [](const A::LinkOpened& e) {
                return "link opened " + link_text(e.link) + " as " + e.socket_addr;
            },
            [](const A::LinkClosed& e) {
                return "link closed " + link_text(e.link) + ": " +
                       std::string{describe(e.trouble)} + ": " + e.reason;
            },
            [](const A::ConnectRefused& e) { return "connect refused: " + e.reason; },
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
            [](const A::FailureExplained& e) {
                return "failure explained " + round_text(e.round) + ' ' +
                       worker_text(e.local_rank) + ": " + e.message;
            },
            [](const A::RemainsCounted& e) {
                return "remains counted: " + std::to_string(e.count);
            },
            [](const A::StoreChecked& e) {
                return "store checked " + round_text(e.round) + ": " +
                       (e.failure.empty() ? "answered" : e.failure);
            },
            [](const A::NoticeGiven& e) { return "notice given " + round_text(e.round); },
            [](const A::PeerAsked& e) {
                return "peer asked caller=" + std::to_string(e.caller) + ' ' +
                       trimmed_line(encode(e.vouch));
            },
            [](const A::PeerAnswered& e) {
                return "peer answered ask=" + std::to_string(e.ask) + ' ' + answer_text(e.answer);
            },
            [](const A::Signalled& e) { return "signalled " + signal_name(e.signal); },
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
            [](const A::Connect& e) { return "connect " + link_text(e.link); },
            [](const A::Send& e) {
                return "send " + link_text(e.link) + ' ' + control::describe(e.message);
            },
            [](const A::CloseLink& e) { return "close " + link_text(e.link); },
            [](const A::SpawnWorkers& e) {
                return "spawn workers " + round_text(e.assignment.round) +
                       " first_rank=" + std::to_string(e.assignment.rank_base) +
                       " world_size=" + std::to_string(e.assignment.world_size) +
                       " node_addr=" + e.node_addr;
            },
            [](const A::CheckStore& e) {
                return "check store " + round_text(e.round) + ' ' + e.store.to_string();
            },
            [](const A::GiveNotice& e) {
                std::string text = "give notice " + round_text(e.round) + " deaths=";
                for (const int rank : e.note.ranks)
                    text += (text.back() == '=' ? "" : ",") + std::to_string(rank);
                return text;
            },
            [](const A::ExplainFailure& e) {
                return "explain failure " + round_text(e.round) + ' ' + worker_text(e.local_rank);
            },
            [](const A::CleanUpRound& e) { return "clean up " + round_text(e.round); },
            [](const Neighbours::Ask& e) {
                return "ask " + e.to.to_string() + " ask=" + std::to_string(e.id) + ' ' +
                       trimmed_line(encode(e.vouch));
            },
            [](const A::AnswerPeer& e) {
                return "answer caller=" + std::to_string(e.caller) + ' ' + answer_text(e.answer);
            },
            [](const A::SetFence& e) {
                return std::string{e.ends_at ? "set" : "clear"} + " fence";
            },
            [](const A::InterruptServer& e) { return "interrupt server: " + e.reason; },
            [](const A::NoteWaiting& e) {
                return "note waiting: " + std::string{describe(e.trouble)} + ": " + e.reason;
            },
            [](const A::NoteStandby& e) { return "note standby: " + e.reason; },
            [](const A::NoteStopping& e) {
                return "note stopping " + round_text(e.round) + ": " + e.reason;
            },
            [](const A::NoteServerLost& e) { return "note server lost: " + e.reason; },
            [](A::NoteServerBack) { return std::string{"note server back"}; },
            [](const A::NoteStale& e) { return "note stale: " + e.what; },
            [](const A::NoteStuck& e) {
                return "note stuck: " + std::to_string(e.local_ranks.size()) + " workers, " +
                       std::to_string(e.remains) + " others";
            },
            [](const A::Finish& e) {
                return "finish " + std::string{control::name_of(e.report.outcome)} +
                       " exit_code=" + std::to_string(e.report.exit_code);
            },
            [](const auto& order) { return describe(WorkerGroup::Effect{order}); },
        },
        effect);
}

std::string_view describe(Agent::Trouble trouble) {
    switch (trouble) {
        case Agent::Trouble::unresolved: return "name does not resolve";
        case Agent::Trouble::refused: return "connection refused";
        case Agent::Trouble::no_answer: return "no answer";
        case Agent::Trouble::wrong_protocol: return "something else answers";
        case Agent::Trouble::wrong_version: return "a server of another version answers";
        case Agent::Trouble::lost: return "connection lost";
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
        case Agent::Phase::done: return "done";
    }
    return "?";
}

}  // namespace ddprun::agent
