// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/host_transport.hpp"

#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::size_t most_quick_bytes = 64 * 1024;

}  // namespace

HostTransport::HostTransport(
    std::shared_ptr<Segment> segment,
    int rank,
    std::vector<int> names,
    std::shared_ptr<FailureMonitor> monitor)
    : segment_(std::move(segment)),
      rank_(rank),
      names_(std::move(names)),
      monitor_(std::move(monitor)),
      peers_(*segment_, rank),
      arena_(std::make_shared<SharedArena>(segment_, rank)),
      spin_policies_{
          SpinPolicy(has_processor_for_each(*segment_)),
          SpinPolicy(has_processor_for_each(*segment_)),
          SpinPolicy(has_processor_for_each(*segment_))},
      met_count_(segment_->seat(rank).arrived.value.load()) {}

HostTransport::~HostTransport() {
    segment_->seat(rank_).has_left.store(1);
    segment_->wake_all();
}

Outcome HostTransport::run(const Collective& collective, milliseconds timeout) {
    if (!collective.is_point_to_point()) return run_step(collective, collective, timeout);
    const bool is_sender = collective.kind == Collective::Kind::send;
    Wait wait{collective, spin_policies_[is_sender ? 1 : 2], timeout};
    const bool is_done = is_sender ? send(collective, wait) : receive(collective, wait);
    return outcome_of(is_done, wait);
}

Outcome HostTransport::run_step(
    const Collective& step, const Collective& whole, milliseconds timeout) {
    Wait wait{whole, spin_policies_[0], timeout};
    const bool is_done = perform(step, whole, wait);
    return outcome_of(is_done, wait);
}

Outcome HostTransport::outcome_of(bool is_done, const Wait& wait) {
    if (!is_done) return segment_->error();
    if (wait.is_monitored) monitor_->end(wait.monitored());
    return {};
}

void HostTransport::abort() {
    GroupError error{
        GroupError::Kind::peer_lost, text_of(named({rank_})) + " has aborted the group"};
    error.ranks = named({rank_});
    fail(error);
}

bool HostTransport::is_quick(const Collective& collective) const {
    if (collective.has_part_counts()) return false;  // its size is not known yet
    const auto ranks = static_cast<std::size_t>(segment_->ranks());
    return collective.bytes() <= most_quick_bytes / ranks;
}

std::vector<int> HostTransport::missing() {
    std::vector<int> late;
    for (int other = 0; other < segment_->ranks(); ++other)
        if (!segment_->seat(other).arrived.has_reached(met_count_.load())) late.push_back(other);
    return named(late);
}

/// Counts this rank as arrived and waits for the others.
bool HostTransport::meet(Wait& wait) {
    const auto target = met_count_.load() + 1;
    met_count_.store(target);
    segment_->seat(rank_).arrived.set(target);
    for (int other = 0; other < segment_->ranks(); ++other)
        if (!await(segment_->seat(other).arrived, target, other, wait)) return false;
    return true;
}

/// Returns false, with the group failed, when the ranks do not make the same call.
bool HostTransport::compare(const Collective& mine, const Posted& theirs, int rank) {
    const auto other = collective_from(theirs);
    if (is_same_call(mine, other)) return true;
    fail_by(FailureDetector::CallsDiffer{
        queue_of(mine),
        mismatch_between(
            text_of(named({rank_})) + " is at " + describe(mine),
            text_of(named({rank})) + " is at " + describe(other))});
    return false;
}

/// Waits until `rank` has incremented `counter` to `target`. Returns false, with the group failed,
/// when that cannot happen.
bool HostTransport::await(Counter& counter, std::uint32_t target, int rank, Wait& wait) {
    const auto is_over = [&] { return counter.has_reached(target) || segment_->has_failed(); };
    if (is_over() || wait.spin_policy.look(is_over)) return counter.has_reached(target);
    if (!wait.since) wait.since = wait.renewed = std::chrono::steady_clock::now();
    const auto deadline = *wait.since + wait.timeout;
    while (!is_over()) {
        const auto now = std::chrono::steady_clock::now();
        const bool is_over_time = now >= deadline;
        if (!is_over_time && !peers_.is_gone(rank)) {
            renew(wait, now);
            const auto left = std::chrono::ceil<milliseconds>(deadline - now);
            counter.sleep(target, std::min(left, waiting_times::peer_check_interval));
            continue;
        }
        // Checked once more: this rank may have been stopped meanwhile, and only now are the
        // other's last writes visible.
        if (counter.has_reached(target)) continue;
        auto late = late_with(counter, target, rank);
        if (is_over_time) {
            fail_by(FailureDetector::PeersLate{queue_of(wait.whole), named(late), wait.timeout});
        } else {
            std::erase_if(late, [this](int one) { return !peers_.is_gone(one); });
            if (late.empty()) late.push_back(rank);
            fail_by(FailureDetector::ProcessesEnded{queue_of(wait.whole), named(late)});
        }
    }
    // Data written before the error is valid.
    return counter.has_reached(target);
}

/// The rank may be waiting for its leader, and no other thread of it reports this wait.
void HostTransport::renew(Wait& wait, std::chrono::steady_clock::time_point now) {
    if (now - wait.renewed < waiting_times::connection_check_interval) return;
    wait.renewed = now;
    wait.is_monitored = true;
    monitor_->renew(wait.monitored());
}

/// All ranks that have not arrived at the point for which `rank` is missing; for a message, its
/// other end.
std::vector<int> HostTransport::late_with(
    const Counter& counter, std::uint32_t target, int rank) const {
    std::vector<int> late;
    const bool is_arrival = &counter == &segment_->seat(rank).arrived;
    for (int other = 0; is_arrival && other < segment_->ranks(); ++other)
        if (!segment_->seat(other).arrived.has_reached(target)) late.push_back(other);
    return late.empty() ? std::vector<int>{rank} : late;
}

std::vector<int> HostTransport::named(std::vector<int> ranks) const {
    for (auto& rank : ranks)
        rank = names_[static_cast<std::size_t>(rank)];
    return ranks;
}

int HostTransport::seat_of(int name) const {
    return static_cast<int>(std::find(names_.begin(), names_.end(), name) - names_.begin());
}

bool HostTransport::send(const Collective& message, Wait& wait) {
    const int to = seat_of(message.receiver);
    auto& channel = segment_->channel(rank_, to);
    const auto* data = static_cast<const std::byte*>(message.input);
    std::size_t left = message.bytes();
    do {
        const auto written = channel.written.value.load();
        // Waits until the piece before the last one is taken.
        if (!await(channel.taken, written - 1, to, wait)) return false;
        const auto bytes = std::min(left, Channel::piece_bytes);
        channel.calls[written % 2] = posted_from(message, Posted::no_offset);
        std::copy_n(data, bytes, channel.pieces[written % 2].data());
        channel.written.set(written + 1);
        data += bytes;
        left -= bytes;
    } while (left > 0);
    return true;
}

bool HostTransport::receive(const Collective& message, Wait& wait) {
    const int from = seat_of(message.root);
    auto& channel = segment_->channel(from, rank_);
    auto* data = static_cast<std::byte*>(message.data);
    std::size_t left = message.bytes();
    do {
        const auto taken = channel.taken.value.load();
        if (!await(channel.written, taken + 1, from, wait)) return false;
        if (!compare(message, channel.calls[taken % 2], from)) return false;
        const auto bytes = std::min(left, Channel::piece_bytes);
        std::copy_n(channel.pieces[taken % 2].data(), bytes, data);
        channel.taken.set(taken + 1);
        data += bytes;
        left -= bytes;
    } while (left > 0);
    return true;
}

}  // namespace ddprun::groups
