// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/sim/checkers/outcomes.hpp"
#include "tests/sim/checkers/ranks.hpp"
#include "tests/sim/checkers/rounds.hpp"

#include <cstdint>
#include <string>

namespace ddprun::sim {

/// All checkers at once; every fact goes to each that cares.
class Checkers {
public:
    explicit Checkers(int max_restarts) : outcomes_(max_restarts) {}

    void on_worker_started(const WorkerStarted& fact) {
        ranks_.on_worker_started(fact, complaints_);
        rounds_.on_worker_started(fact, complaints_);
        outcomes_.on_worker_started(fact, complaints_);
    }
    void on_worker_ended(const std::string& host, int pid) { rounds_.on_worker_ended(host, pid); }
    void on_worker_stuck(const std::string& host, int pid) { rounds_.on_worker_stuck(host, pid); }
    void on_host_asleep(const std::string& host) { rounds_.on_host_asleep(host); }
    void on_host_awake(const std::string& host) { rounds_.on_host_awake(host, complaints_); }
    void on_arrived(const control::Assignment& told, std::int64_t count) {
        Ranks::on_arrived(told, count, complaints_);
    }
    void on_result(
        const std::string& host, const std::string& incarnation, const control::JobResult& result) {
        outcomes_.on_result(host, incarnation, result, complaints_);
    }

    const Complaints& complaints() const { return complaints_; }
    std::size_t living_worker_count() const { return rounds_.living_count(); }

private:
    Complaints complaints_;
    Ranks ranks_;
    Rounds rounds_;
    Outcomes outcomes_;
};

}  // namespace ddprun::sim
