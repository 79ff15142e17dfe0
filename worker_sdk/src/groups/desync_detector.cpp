// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/desync_detector.hpp"

#include "worker_sdk/src/waiting_times.hpp"

#include <exception>
#include <utility>

namespace ddprun::groups {

namespace {

using waiting_times::store_answer_timeout;

/// A text that is equal for all ranks at the same point of the program.
std::string place_of(const Collective& collective) {
    const auto number = std::to_string(collective.sequence);
    if (!collective.is_point_to_point()) return number;
    return std::to_string(collective.root) + "-" + std::to_string(collective.receiver) + "/" +
           number;
}

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

DesyncDetector::DesyncDetector(Store store, std::string prefix, int rank, DeathReports deaths)
    : store_(std::move(store)),
      prefix_(std::move(prefix)),
      rank_(rank),
      deaths_(std::move(deaths)) {}

template <class Call>
DesyncDetector::Answer DesyncDetector::ask(Queue queue, const Call& call) {
    try {
        return call();
    } catch (const std::exception&) {
        own_connection_.reset();
        return FailureDetector::StoreUnreachable{queue};
    }
}

DesyncDetector::Answer DesyncDetector::read_reports(Queue queue) {
    return ask(queue, [&]() -> Answer {
        if (auto report = first_report())
            return FailureDetector::ReportRead{queue, std::move(*report)};
        return FailureDetector::NoReport{queue};
    });
}

DesyncDetector::Answer DesyncDetector::compare(Queue queue, const Collective& collective) {
    return ask(queue, [&]() -> Answer {
        if (auto report = first_report())
            return FailureDetector::ReportRead{queue, std::move(*report)};
        // One key for each rank, independent of the call: slow calls must not fill the store.
        connection().set(waiting_key(rank_), place_of(collective));
        const auto here = " is at " + describe(collective);
        const auto mine = text_of({rank_}) + here;
        const auto key = prefix_ + "at/" + place_of(collective);
        const auto theirs = connection().compare_set(key, "", mine);
        if (ends_with(theirs, here)) return FailureDetector::NoReport{queue};
        return FailureDetector::DesyncSeen{queue, mismatch_between(mine, theirs)};
    });
}

DesyncDetector::Answer DesyncDetector::read_waiters(
    Queue queue, const Collective& collective, const std::vector<int>& ranks) {
    return ask(queue, [&]() -> Answer {
        std::vector<int> silent;
        auto& store = connection();
        for (const int rank : ranks) {
            const auto key = waiting_key(rank);
            const bool waits =
                store.check({key}) && store.get(key, store_answer_timeout) == place_of(collective);
            if (!waits) silent.push_back(rank);
        }
        return FailureDetector::WaitersRead{queue, std::move(silent)};
    });
}

void DesyncDetector::publish(const GroupError& error) {
    try {
        connection().compare_set(first_error_key(), "", written(error));
    } catch (const std::exception&) {
        own_connection_.reset();
    }
}

std::string DesyncDetector::first_error_key() const {
    return prefix_ + "error";
}

std::string DesyncDetector::waiting_key(int rank) const {
    return prefix_ + "waits/" + std::to_string(rank);
}

std::optional<GroupError> DesyncDetector::first_report() {
    const auto key = first_error_key();
    auto& store = connection();
    if (!store.check({key})) return deaths_.look(store, store_answer_timeout);
    return error_from_text(store.get(key, store_answer_timeout));
}

Store& DesyncDetector::connection() {
    // A separate connection, since the program's own may be waiting for a key without a limit.
    if (!own_connection_) own_connection_ = store_.reconnect(store_answer_timeout);
    return *own_connection_;
}

}  // namespace ddprun::groups
