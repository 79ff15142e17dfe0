// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/group.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/groups/loopback.hpp"
#include "worker_sdk/src/groups/part_counts.hpp"
#include "worker_sdk/src/start_thread.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// After this many checks without a quick ticket a lane's thread stops polling and sleeps until
/// woken.
constexpr int most_idle_checks = 100;

/// On the cpu an all_reduce is in place.
void bring_input(const Collective& collective) {
    if (collective.kind != Collective::Kind::all_reduce || !collective.input) return;
    if (collective.input != collective.data && collective.count > 0)
        std::memcpy(collective.data, collective.input, collective.bytes());
}

/// Performs the call in a world of one. This rank's own input and output parts must still match.
Outcome perform_alone(const Collective& collective) {
    if (collective.has_part_counts())
        if (auto differs = mismatch_of_counts(collective, counts_to_compare(collective, 1), 1))
            return differs;
    perform_together({collective});
    return {};
}

/// The rest of a timeout that began at `start`: at least 1 ms.
milliseconds left_of(milliseconds timeout, Group::Clock::time_point start) {
    const auto passed = std::chrono::floor<milliseconds>(Group::Clock::now() - start);
    return std::max(timeout - passed, 1ms);
}

/// The tag of the second step of a call; the first step has the call's own tag.
std::uint32_t second_tag_of(const Collective& collective) {
    return tag_of(collective) ^ 0x9e3779b9;
}

/// Adds to the error the call in which it happened.
GroupError placed(const Collective& collective, GroupError error) {
    if (error.kind == GroupError::Kind::mismatch) return error;
    if (error.kind == GroupError::Kind::timeout) error.operation = describe(collective);
    error.text = describe(collective) + ": " + error.text;
    return error;
}

}  // namespace

std::shared_ptr<Group> Group::create(
    Settings settings,
    std::function<Opened()> open,
    std::shared_ptr<FailureMonitor> monitor,
    std::optional<GroupConfig> config) {
    ProfilerRange::prepare();
    auto group = std::make_shared<Group>(settings);
    if (monitor) group->monitor_ = std::move(monitor);
    group->monitor_->at_verdict(
        [raw = group.get()](const Collective& collective, const GroupError& verdict) {
            raw->abort(placed(collective, verdict));
        });
    group->config_ = std::move(config);
    auto* raw = group.get();
    group->lanes_.front().thread =
        start_thread([raw, open = std::move(open)] { raw->serve(open); });

    group->await_opened();
    return group;
}

std::shared_ptr<Group> Group::create_alone() {
    ProfilerRange::prepare();
    return std::make_shared<Group>(Settings{});
}

Group::Group(Settings settings)
    : settings_(settings),
      monitor_(std::make_shared<FailureMonitor>(FailureMonitor::Settings{})) {}

Group::~Group() {
    {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
    }
    for (auto& lane : lanes_)
        lane.changed.notify_all();
    for (auto& lane : lanes_)
        if (lane.thread.joinable()) lane.thread.join();
    monitor_->stop();
}

Lane& Group::lane_of(const Collective& collective) {
    if (collective.kind == Collective::Kind::send) return lanes_[1];
    if (collective.kind == Collective::Kind::recv) return lanes_[2];
    return lanes_[0];
}

void Group::launch(Collective collective, Ticket& ticket) {
    const std::lock_guard one_at_a_time(launch_mutex_);
    std::unique_lock lock(mutex_);
    auto& count = launched_.of(collective);
    collective.sequence = count + 1;
    collective.stream = stream_;
    if (const auto wrong = check(collective, settings_.rank, settings_.world_size))
        throw_error(*wrong, settings_.round);
    if (dead_) {
        const auto dead = *dead_;
        lock.unlock();
        write_trace();
        throw_error(dead, settings_.round);
    }
    if (transport_)
        if (const auto refused = transport_->refusal(collective))
            throw_error(*refused, settings_.round);
    ticket.collective = collective;
    ticket.range = ProfilerRange(collective);
    if (!transport_) {
        ++count;
        finish(ticket, perform_alone(collective));
        return;
    }

    auto& lane = lane_of(collective);
    ticket.is_quick = transport_->is_quick(collective);
    if (!lane.thread.joinable()) lane.thread = start_thread([this, &lane] { work_through(lane); });
    const bool is_next = lane.not_begun_count == 0;
    if (is_next || collective.stream) begin(lock, ticket, is_next);
    ++count;
    ticket.trace_number = trace_.launched(collective);
    if (ticket.has_begun) trace_.running(ticket.trace_number);
    if (ticket.is_done) {
        trace_.ended(ticket.trace_number, !ticket.outcome);
        return;
    }
    if (!ticket.has_begun) ++lane.not_begun_count;
    lane.queue.push_back(&ticket);
    lane.wake();
}

/// Begins the ticket if it is the next one; afterwards `wait` only waits for its end. Throws a
/// usage error.
void Group::begin(std::unique_lock<std::mutex>& lock, Ticket& ticket, bool is_next) {
    const auto transport = transport_;
    lock.unlock();
    auto outcome = caught([&]() -> Outcome {
        if (ticket.collective.stream)
            if (auto error = transport->follow(ticket.collective)) return error;
        if (!is_next) return {};
        auto begun = transport->begin(ticket.collective);
        if (auto* error = std::get_if<GroupError>(&begun)) return std::move(*error);
        ticket.has_begun = std::get<bool>(begun);
        return {};
    });
    if (outcome && outcome->kind == GroupError::Kind::usage)
        throw_error(placed(ticket.collective, std::move(*outcome)), settings_.round);
    if (outcome) outcome = end_by(ticket.collective, std::move(*outcome), *transport);
    lock.lock();
    if (ticket.has_begun) ticket.is_quick = true;
    if (outcome) finish(ticket, std::move(outcome));
}

bool Group::precede(const Ticket& ticket, void* stream) {
    const std::lock_guard one_at_a_time(launch_mutex_);
    std::shared_ptr<Transport> transport;
    {
        const std::lock_guard lock(mutex_);
        if (ticket.is_done || !ticket.has_begun) return false;
        transport = transport_;
    }
    auto error = caught([&] { return transport->precede(ticket.collective, stream); });
    if (!error) return true;
    if (error->kind == GroupError::Kind::usage)
        throw_error(placed(ticket.collective, std::move(*error)), settings_.round);
    abort(*end_by(ticket.collective, std::move(*error), *transport));
    return false;
}

bool Group::is_done(const Ticket& ticket) const {
    const std::lock_guard lock(mutex_);
    return ticket.is_done;
}

void Group::abort(GroupError why) {
    std::shared_ptr<Transport> transport;
    {
        const std::lock_guard lock(mutex_);
        if (!dead_) dead_ = std::move(why);
        transport = transport_;
    }
    monitor_->note_abort();
    for (auto& lane : lanes_)
        lane.changed.notify_all();
    if (transport) transport->abort();
}

void Group::use_stream(void* stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
}

void* Group::stream() const {
    const std::lock_guard lock(mutex_);
    return stream_;
}

std::shared_ptr<Transport> Group::transport() const {
    const std::lock_guard lock(mutex_);
    return transport_;
}

void Group::perform_beside_queue(const std::function<Outcome()>& call) {
    const std::lock_guard one_at_a_time(launch_mutex_);
    {
        std::unique_lock lock(mutex_);
        auto& lane = lanes_.front();
        while (!dead_ && may_perform(lane) && lane.queue.front()->has_begun)
            perform_front(lock, lane, settings_.timeout);
        work_done_.wait(lock, [&] { return dead_ || (lane.queue.empty() && !lane.current); });
        if (dead_) throw_error(*dead_, settings_.round);
    }
    auto outcome = call();
    if (!outcome) return;
    outcome = monitor_->explain({}, std::move(*outcome));
    // A usage error or a missing feature of this rank does not affect the others.
    if (outcome->kind == GroupError::Kind::usage) throw_error(*outcome, settings_.round);
    abort(std::move(*outcome));
    const std::lock_guard lock(mutex_);
    throw_error(*dead_, settings_.round);
}

int Group::device() const {
    const std::lock_guard lock(mutex_);
    return transport_ ? transport_->device() : -1;
}

std::shared_ptr<Arena> Group::arena() const {
    const std::lock_guard lock(mutex_);
    return transport_ ? transport_->arena() : nullptr;
}

void Group::serve(const std::function<Opened()>& open) {
    if (open_transport(open)) work_through(lanes_.front());
}

bool Group::open_transport(const std::function<Opened()>& open) {
    Opened opened;
    try {
        opened = open();
    } catch (const std::exception& thrown) {  // the creator of the group waits for the result
        opened = GroupError{GroupError::Kind::other, thrown.what()};
    }
    Outcome failed;
    if (auto* error = std::get_if<GroupError>(&opened)) {
        failed = std::move(*error);
    } else {
        const std::shared_ptr<Transport> transport =
            std::get<std::unique_ptr<Transport>>(std::move(opened));
        {
            const std::lock_guard lock(mutex_);
            transport_ = transport;
        }
        failed = caught([&] { return transport->connect(); });
        if (failed) failed = monitor_->explain({}, std::move(*failed));
    }
    const std::lock_guard lock(mutex_);
    if (failed && !dead_) dead_ = std::move(failed);
    is_open_ = !dead_;
    work_done_.notify_all();
    return is_open_;
}

/// Throws the error with which the group could not be opened.
void Group::await_opened() {
    const FailureMonitor::Wait wait{FailureDetector::Queue::group, Clock::now(), {}};
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return is_open_ || dead_; };
    while (!work_done_.wait_for(lock, waiting_times::connection_check_interval, is_over)) {
        // Without a transport the group is still being opened, which ends by itself.
        if (!transport_) continue;
        lock.unlock();
        if (auto verdict = monitor_->renew(wait)) abort(std::move(*verdict));
        lock.lock();
    }
    if (dead_) throw_error(*dead_, settings_.round);
    monitor_->end(wait);
}

void Group::work_through(Lane& lane) {
    std::unique_lock lock(mutex_);
    std::optional<std::uint64_t> begun_when_seen;
    while (await_ticket(lock, lane, begun_when_seen)) {
        perform_front(lock, lane, settings_.timeout);
        // No other thread has waited for the next ticket meanwhile, so this counts as the first
        // time that it is seen.
        begun_when_seen.reset();
        if (!lane.queue.empty()) begun_when_seen = lane.begun_count;
    }
}

/// Returns false when the group is closing and nothing is left. A quick ticket is taken only when
/// it is seen twice: `begun_when_seen` is the number of tickets that had left the queue at the
/// first time.
bool Group::await_ticket(
    std::unique_lock<std::mutex>& lock, Lane& lane, std::optional<std::uint64_t>& begun_when_seen) {
    auto launched_when_seen = launched_.collectives;
    int idle_checks = most_idle_checks;
    for (;;) {
        const bool is_free = !lane.current && !lane.queue.empty();
        if (is_free) {
            const bool is_seen = begun_when_seen == lane.begun_count;
            if (!lane.queue.front()->is_quick || is_seen || is_closing_) break;
            begun_when_seen = lane.begun_count;
            idle_checks = 0;
        } else if (is_closing_ && !lane.current) {
            break;
        }
        lane.is_looking = idle_checks < most_idle_checks;
        if (!lane.is_looking) {
            lane.changed.wait(lock);
            continue;
        }
        lane.changed.wait_for(lock, waiting_times::quick_call_check_interval);
        const bool is_busy = launched_when_seen != launched_.collectives;
        launched_when_seen = launched_.collectives;
        idle_checks = is_busy ? 0 : idle_checks + 1;
    }
    lane.is_looking = false;
    return !lane.queue.empty();
}

/// Requires: no other thread is performing in this lane, and it has a ticket.
void Group::perform_front(std::unique_lock<std::mutex>& lock, Lane& lane, milliseconds timeout) {
    auto& ticket = *lane.queue.front();
    lane.queue.pop_front();
    ++lane.begun_count;
    lane.current = ticket.collective;
    trace_.running(ticket.trace_number);
    lock.unlock();
    auto outcome = run(ticket, timeout);
    lock.lock();
    lane.current.reset();
    if (!ticket.has_begun) --lane.not_begun_count;
    finish(ticket, std::move(outcome));
    lane.wake();  // its thread may have gone to sleep meanwhile
}

/// Requires: the mutex is held.
void Group::finish(Ticket& ticket, Outcome outcome) {
    // The first of several errors counts: an abort makes the collective fail as well.
    if (outcome && !dead_) dead_ = outcome;
    if (outcome) ticket.outcome = dead_;
    trace_.ended(ticket.trace_number, !outcome);
    ticket.range.end();
    const auto memory = std::move(ticket.memory);
    ticket.is_done = true;  // from here on its owner may destroy it
    work_done_.notify_all();
}

Outcome Group::run(const Ticket& ticket, milliseconds timeout) {
    std::shared_ptr<Transport> transport;
    bool was_dead = false;
    {
        const std::lock_guard lock(mutex_);
        was_dead = dead_.has_value();
        // A call that has begun uses its buffers until `run` returns.
        if (was_dead && !ticket.has_begun) return dead_;
        transport = transport_;
    }
    auto outcome = caught([&] { return run_in(*transport, ticket.collective, timeout); });
    if (!outcome || was_dead) return outcome;
    return end_by(ticket.collective, std::move(*outcome), *transport);
}

Outcome Group::run_in(
    Transport& transport, const Collective& collective, milliseconds timeout) const {
    // NCCL reads a separate input, and compares nothing.
    if (settings_.backend == Backend::nccl) return transport.run(collective, timeout);
    bring_input(collective);
    if (!collective.has_part_counts()) return transport.run(collective, timeout);

    const auto start = Clock::now();
    const auto own = counts_to_compare(collective, settings_.world_size);
    std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(settings_.world_size));
    auto step = collective;
    step.type = ElementType::int64;
    step.input = own.data();
    step.data = all.data();
    step.count = own.size();
    step.counts.reset();
    if (auto error = transport.run(step, timeout)) return error;
    if (auto differs = mismatch_of_counts(collective, all, settings_.world_size)) return differs;
    step = collective;
    step.count = largest_part(all, settings_.world_size);
    step.tag = second_tag_of(collective);
    return step.count > 0 ? transport.run(step, left_of(timeout, start)) : Outcome{};
}

Outcome Group::end_by(const Collective& collective, GroupError error, Transport& transport) {
    auto outcome = caught([&]() -> Outcome {
        const FailureMonitor::Wait wait{queue_of(collective), Clock::now(), collective};
        return placed(collective, monitor_->explain(wait, std::move(error)));
    });
    transport.abort();  // the peers may be waiting for this rank; the abort makes them fail too
    return outcome;
}

GroupConfig Group::config_of(const std::vector<int>& ranks) {
    const auto own = std::find(ranks.begin(), ranks.end(), settings_.rank);
    std::vector<int> sorted(ranks);
    std::sort(sorted.begin(), sorted.end());
    const bool is_valid = !sorted.empty() && sorted.front() >= 0 &&
                          sorted.back() < settings_.world_size &&
                          std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (!is_valid || own == ranks.end())
        throw UsageError(
            "a sub-group of " + text_of(ranks) + ", made by " + text_of({settings_.rank}) +
            ": it takes different ranks from 0 to " + std::to_string(settings_.world_size - 1) +
            ", this one among them");
    if (!config_) throw UsageError("this group was not made from a store and has no sub-groups");

    auto config = *config_;
    std::string name;
    for (const int rank : ranks)
        name += (name.empty() ? "" : "-") + std::to_string(rank);
    const std::lock_guard lock(mutex_);
    config.prefix += "sub" + name + "." + std::to_string(sub_group_counts_[ranks]++) + "/";
    config.members.clear();
    for (const int rank : ranks)
        config.members.push_back(
            config_->members.empty() ? rank : config_->members[static_cast<std::size_t>(rank)]);
    config.world.rank = static_cast<int>(own - ranks.begin());
    config.world.world_size = static_cast<int>(ranks.size());
    return config;
}

}  // namespace ddprun::groups
