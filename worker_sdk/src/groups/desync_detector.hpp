// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/store.hpp"
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/death_reports.hpp"
#include "worker_sdk/src/groups/failure_detector.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::groups {

/// Reads and writes reports in the store: what the ranks of a group report to each other about
/// errors, and what agents report about deaths. It answers a FailureDetector's questions.
///
/// Determines why a collective takes long: did another rank make a different call? Ranks that
/// disagree may send each other nothing and only wait; so the first rank that waits long
/// writes its call into the store, and the others compare. Costs nothing while calls are quick, and
/// a few requests per rank when one is slow.
///
/// One thread at a time. A store that is gone is an answer here, not an error.
class DesyncDetector {
public:
    using Queue = FailureDetector::Queue;
    using Answer = FailureDetector::Event;

    DesyncDetector(Store store, std::string prefix, int rank, DeathReports deaths);

    /// Returns the first report of a rank, else the first death.
    Answer read_reports(Queue queue);
    /// Called when this rank has waited long for `collective`. Returns a report, or a rank that is
    /// in another call.
    Answer compare(Queue queue, const Collective& collective);
    /// The ranks of `ranks` that have not compared while waiting for `collective`: they are gone,
    /// have not waited long, or are not in this call.
    Answer read_waiters(Queue queue, const Collective& collective, const std::vector<int>& ranks);
    /// Only the first of several reports is kept.
    void publish(const GroupError& error);

private:
    template <class Call>
    Answer ask(Queue queue, const Call& call);
    std::string first_error_key() const;
    std::string waiting_key(int rank) const;
    std::optional<GroupError> first_report();
    Store& connection();

    Store store_;
    std::optional<Store> own_connection_;
    std::string prefix_;
    int rank_;
    DeathReports deaths_;
};

}  // namespace ddprun::groups
