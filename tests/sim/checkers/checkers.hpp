// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/budget.hpp"
#include "tests/sim/checkers/endings.hpp"
#include "tests/sim/checkers/isolation.hpp"
#include "tests/sim/checkers/leaders.hpp"
#include "tests/sim/checkers/ledgers.hpp"
#include "tests/sim/checkers/outcomes.hpp"
#include "tests/sim/checkers/ranks.hpp"
#include "tests/sim/checkers/rounds.hpp"
#include "tests/sim/checkers/saves.hpp"
#include "tests/sim/checkers/states.hpp"
#include "tests/sim/checkers/votes.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::sim {

/// All checkers at once; every fact goes to each that uses it.
class Checkers {
public:
    Checkers(int max_restarts, std::vector<int> final_codes, int node_unit = 1)
        : ranks_(node_unit),
          budget_(max_restarts, std::move(final_codes)) {}

    void on_worker_started(const WorkerStarted& fact) {
        ranks_.on_worker_started(fact, complaints_);
        rounds_.on_worker_started(fact, complaints_);
        budget_.on_worker_started(fact, complaints_);
        isolation_.on_worker_started(fact, complaints_);
        if (is_elected_) endings_.on_worker_started(fact, complaints_);
        saves_.on_worker_started(fact);
        states_.on_worker_started(fact, complaints_);
    }
    /// Called when servers are elected: also checks the invariants of elections.
    void expect_election() { is_elected_ = true; }
    void on_elected(const ElectedSeen& fact) { leaders_.on_elected(fact, complaints_); }
    void on_act(const ActSeen& fact) { leaders_.on_act(fact, complaints_); }
    void on_accepted(const AcceptSeen& fact) { votes_.on_accepted(fact, complaints_); }
    const Votes& votes() const { return votes_; }
    void on_lost(const LostSeen& fact) { endings_.on_lost(fact); }
    void on_saved(const RankSaved& fact) { saves_.on_saved(fact); }
    void on_daemon_replaced(Instant now, Duration lease) {
        ranks_.on_daemon_replaced();
        rounds_.on_daemon_replaced(now, lease);
    }
    void on_worker_ended(const std::string& host, int pid) { rounds_.on_worker_ended(host, pid); }
    void on_round_failed(const RoundFailed& fact) { budget_.on_round_failed(fact); }
    void on_worker_stuck(const std::string& host, int pid) { rounds_.on_worker_stuck(host, pid); }
    void on_host_asleep(const std::string& host) { rounds_.on_host_asleep(host); }
    void on_host_awake(const std::string& host) { rounds_.on_host_awake(host, complaints_); }
    void on_arrived(
        const std::string& incarnation, const control::Assignment& given, std::int64_t count) {
        ranks_.on_arrived(incarnation, given, count, complaints_);
    }
    void on_waited_in_vain(
        const std::string& host, const std::string& incarnation, const control::Assignment& given) {
        ranks_.on_waited_in_vain(host, incarnation, given, complaints_);
    }
    void on_result(const ResultSeen& fact) {
        rounds_.on_result(fact, complaints_);
        outcomes_.on_result(fact, complaints_);
        budget_.on_result(fact, complaints_);
        isolation_.on_result(fact, complaints_);
        if (is_elected_) endings_.on_result(fact);
        saves_.on_result(fact, complaints_);
        Ledgers::on_result(fact, complaints_);
    }
    void on_exit(const std::string& host, int exit_code) {
        outcomes_.on_exit(host, exit_code, complaints_);
    }
    /// While this is set, no signal may be sent.
    void expect_no_signal(bool is_expected) { is_no_signal_due_ = is_expected; }
    void on_worker_signalled(const std::string& worker) {
        if (is_no_signal_due_)
            complaints_.push_back(worker + " is signalled although only the leader has changed");
    }
    /// Reports something that no other checker detects.
    void complain(std::string what) { complaints_.push_back(std::move(what)); }

    const Complaints& complaints() const { return complaints_; }
    std::size_t living_worker_count() const { return rounds_.living_count(); }

private:
    Complaints complaints_;
    Ranks ranks_;
    Rounds rounds_;
    Budget budget_;
    Outcomes outcomes_;
    Isolation isolation_;
    Leaders leaders_;
    Endings endings_;
    Votes votes_;
    bool is_elected_ = false;
    bool is_no_signal_due_ = false;
    Saves saves_;
    States states_;
};

}  // namespace ddprun::sim
