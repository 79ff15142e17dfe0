// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/group.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/groups/loopback.hpp"
#include "worker_sdk/src/quiet_thread.hpp"

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// How often a lane's thread looks for quick tickets that nobody waits for, and after how many
/// looks in vain it wants to be woken again.
constexpr auto between_looks_for_quick_ones = 1ms;
constexpr int looks_in_vain = 100;

/// An exception, out of memory say, is a trouble too: who waits must hear of the end.
template <class Call>
Outcome guarded(const Call& call) {
    try {
        return call();
    } catch (const std::exception& error) {
        return Trouble{Trouble::Kind::other, error.what()};
    }
}

/// With the call that it happened in.
Trouble placed(const Collective& collective, Trouble trouble) {
    if (trouble.kind == Trouble::Kind::mismatch) return trouble;
    if (trouble.kind == Trouble::Kind::timeout) trouble.operation = describe(collective);
    trouble.text = describe(collective) + ": " + trouble.text;
    return trouble;
}

}  // namespace

std::shared_ptr<Group> Group::create(
    Settings settings,
    std::function<Opened()> open,
    std::shared_ptr<MismatchWatch> watch,
    std::optional<Founding> founding) {
    auto group = std::make_shared<Group>(settings);
    group->watch_ = std::move(watch);
    group->founding_ = std::move(founding);
    auto* raw = group.get();
    group->lanes_.front().thread =
        start_quiet_thread([raw, open = std::move(open)] { raw->serve(open); });

    std::unique_lock lock(group->mutex_);
    group->work_done_.wait(lock, [&] { return group->is_open_ || group->dead_; });
    if (group->dead_) throw_trouble(*group->dead_, settings.round);
    return group;
}

std::shared_ptr<Group> Group::create_alone() {
    return std::make_shared<Group>(Settings{});
}

Group::Group(Settings settings) : settings_(settings) {}

Group::~Group() {
    {
        const std::lock_guard lock(mutex_);
        is_closing_ = true;
    }
    for (auto& lane : lanes_)
        lane.changed.notify_all();
    for (auto& lane : lanes_)
        if (lane.thread.joinable()) lane.thread.join();
}

Lane& Group::lane_of(const Collective& collective) {
    if (collective.kind == Collective::Kind::send) return lanes_[1];
    if (collective.kind == Collective::Kind::recv) return lanes_[2];
    return lanes_[0];
}

std::uint64_t& Group::count_of(const Collective& collective) {
    if (!collective.is_point_to_point()) return launched_count_;
    return message_counts_[{collective.root, collective.receiver}];
}

void Group::launch(Collective collective, Ticket& ticket) {
    const std::lock_guard one_at_a_time(launch_mutex_);
    std::unique_lock lock(mutex_);
    auto& count = count_of(collective);
    collective.sequence = count + 1;
    collective.stream = stream_;
    if (const auto wrong = check(collective, settings_.rank, settings_.world_size))
        throw_trouble(*wrong, settings_.round);
    if (dead_) throw_trouble(*dead_, settings_.round);
    ticket.collective = collective;
    if (!transport_) {
        perform_together({collective});
        ++count;
        ticket.is_done = true;
        return;
    }

    auto& lane = lane_of(collective);
    ticket.is_quick = transport_->is_quick(collective);
    if (!lane.thread.joinable())
        lane.thread = start_quiet_thread([this, &lane] { work_through(lane); });
    const bool is_next = lane.not_begun_count == 0;
    if (is_next || collective.stream) begin(lock, ticket, is_next);
    ++count;
    if (ticket.is_done) return;
    if (!ticket.has_begun) ++lane.not_begun_count;
    lane.queue.push_back(&ticket);
    wake(lane);
}

/// Of what begins then, which only the next one can, only the end is left to wait for. What makes
/// no sense on this rank is thrown.
void Group::begin(std::unique_lock<std::mutex>& lock, Ticket& ticket, bool is_next) {
    const auto transport = transport_;
    lock.unlock();
    auto outcome = guarded([&]() -> Outcome {
        if (ticket.collective.stream)
            if (auto trouble = transport->follow(ticket.collective)) return trouble;
        if (!is_next) return {};
        auto begun = transport->begin(ticket.collective);
        if (auto* trouble = std::get_if<Trouble>(&begun)) return std::move(*trouble);
        ticket.has_begun = std::get<bool>(begun);
        return {};
    });
    if (outcome && outcome->kind == Trouble::Kind::usage)
        throw_trouble(placed(ticket.collective, std::move(*outcome)), settings_.round);
    if (outcome) outcome = end_by(ticket.collective, std::move(*outcome), *transport);
    lock.lock();
    if (ticket.has_begun) ticket.is_quick = true;
    if (outcome) finish(ticket, std::move(outcome));
}

/// Nobody, for a quick one, while the lane's thread looks by itself.
void Group::wake(Lane& lane) {
    if (lane.queue.empty()) return;
    if (!lane.queue.front()->is_quick || !lane.is_looking) lane.changed.notify_one();
}

bool Group::is_done(const Ticket& ticket) const {
    const std::lock_guard lock(mutex_);
    return ticket.is_done;
}

void Group::abort(Trouble why) {
    std::shared_ptr<Transport> transport;
    {
        const std::lock_guard lock(mutex_);
        if (!dead_) dead_ = std::move(why);
        transport = transport_;
    }
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

const DeviceAccess* Group::device_access() const {
    const std::lock_guard lock(mutex_);
    return transport_ ? transport_->device_access() : nullptr;
}

void Group::perform_beside_queue(const std::function<Outcome()>& call) {
    const std::lock_guard one_at_a_time(launch_mutex_);
    {
        std::unique_lock lock(mutex_);
        auto& lane = lanes_.front();
        while (!dead_ && may_perform(lane) && lane.queue.front()->has_begun)
            perform_front(lock, lane, settings_.timeout);
        work_done_.wait(lock, [&] { return dead_ || (lane.queue.empty() && !lane.current); });
        if (dead_) throw_trouble(*dead_, settings_.round);
    }
    auto outcome = call();
    if (!outcome) return;
    const bool may_have_a_reason =
        outcome->kind == Trouble::Kind::peer_lost || outcome->kind == Trouble::Kind::timeout;
    if (may_have_a_reason && watch_) outcome = watch_->agreed(std::move(*outcome));
    // What makes no sense on this rank, or is not there, does no harm to the others.
    if (outcome->kind == Trouble::Kind::usage) throw_trouble(*outcome, settings_.round);
    abort(std::move(*outcome));
    const std::lock_guard lock(mutex_);
    throw_trouble(*dead_, settings_.round);
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
    } catch (const std::exception& error) {  // whoever makes the group waits for a word
        opened = Trouble{Trouble::Kind::other, error.what()};
    }
    const std::lock_guard lock(mutex_);
    if (auto* trouble = std::get_if<Trouble>(&opened)) {
        dead_ = std::move(*trouble);
    } else {
        transport_ = std::get<std::unique_ptr<Transport>>(std::move(opened));
        is_open_ = true;
    }
    work_done_.notify_all();
    return is_open_;
}

void Group::work_through(Lane& lane) {
    std::unique_lock lock(mutex_);
    std::optional<std::uint64_t> begun_when_seen;
    while (await_ticket(lock, lane, begun_when_seen)) {
        perform_front(lock, lane, settings_.timeout);
        // Nobody has waited for the next one all the while.
        begun_when_seen.reset();
        if (!lane.queue.empty()) begun_when_seen = lane.begun_count;
    }
}

/// False when the group is closing and nothing is left. A quick ticket has to be seen twice: how
/// many had left the queue then is in `begun_when_seen`.
bool Group::await_ticket(
    std::unique_lock<std::mutex>& lock, Lane& lane, std::optional<std::uint64_t>& begun_when_seen) {
    auto launched_when_seen = count_of({});
    int looks = looks_in_vain;
    for (;;) {
        const bool is_free = !lane.current && !lane.queue.empty();
        if (is_free) {
            const bool is_seen = begun_when_seen == lane.begun_count;
            if (!lane.queue.front()->is_quick || is_seen || is_closing_) break;
            begun_when_seen = lane.begun_count;
            looks = 0;
        } else if (is_closing_ && !lane.current) {
            break;
        }
        lane.is_looking = looks < looks_in_vain;
        if (!lane.is_looking) {
            lane.changed.wait(lock);
            continue;
        }
        lane.changed.wait_for(lock, between_looks_for_quick_ones);
        const bool is_busy = launched_when_seen != launched_count_;
        launched_when_seen = launched_count_;
        looks = is_busy ? 0 : looks + 1;
    }
    lane.is_looking = false;
    return !lane.queue.empty();
}

/// Requires: nobody else is performing in this lane, and it has a ticket.
void Group::perform_front(std::unique_lock<std::mutex>& lock, Lane& lane, milliseconds timeout) {
    auto& ticket = *lane.queue.front();
    lane.queue.pop_front();
    ++lane.begun_count;
    lane.current = ticket.collective;
    lane.broken_since.reset();
    lock.unlock();
    auto outcome = run(ticket, timeout);
    lock.lock();
    lane.current.reset();
    if (!ticket.has_begun) --lane.not_begun_count;
    finish(ticket, std::move(outcome));
}

/// Requires: the mutex.
void Group::finish(Ticket& ticket, Outcome outcome) {
    // Of several reasons the first counts: an abort makes the collective fail as well.
    if (outcome && !dead_) dead_ = outcome;
    if (outcome) ticket.outcome = dead_;
    ticket.is_done = true;  // from here on it may be gone
    work_done_.notify_all();
}

Outcome Group::run(const Ticket& ticket, milliseconds timeout) {
    std::shared_ptr<Transport> transport;
    bool was_dead = false;
    {
        const std::lock_guard lock(mutex_);
        was_dead = dead_.has_value();
        // What has begun uses its buffers until the transport says that it does not.
        if (was_dead && !ticket.has_begun) return dead_;
        transport = transport_;
    }
    auto outcome = guarded([&] { return transport->run(ticket.collective, timeout); });
    if (!outcome || was_dead) return outcome;
    return end_by(ticket.collective, std::move(*outcome), *transport);
}

Outcome Group::end_by(const Collective& collective, Trouble trouble, Transport& transport) {
    auto outcome = guarded([&]() -> Outcome { return explain(collective, std::move(trouble)); });
    transport.abort();  // tells the peers, which may be waiting for us
    return outcome;
}

Trouble Group::explain(const Collective& collective, Trouble trouble) {
    const bool may_have_a_reason =
        trouble.kind == Trouble::Kind::peer_lost || trouble.kind == Trouble::Kind::timeout;
    if (may_have_a_reason && watch_) trouble = watch_->agreed(std::move(trouble));
    return placed(collective, std::move(trouble));
}

void Group::look_for_mismatch(std::unique_lock<std::mutex>& lock, Lane& lane) {
    if (!watch_ || !lane.current) return;
    const auto collective = *lane.current;
    lock.unlock();
    auto found = watch_->look(collective);
    if (found) abort(placed(collective, std::move(*found)));
    lock.lock();
}

Founding Group::founding_of(const std::vector<int>& ranks) {
    const auto own = std::find(ranks.begin(), ranks.end(), settings_.rank);
    std::vector<int> sorted(ranks);
    std::sort(sorted.begin(), sorted.end());
    const bool is_sound = !sorted.empty() && sorted.front() >= 0 &&
                          sorted.back() < settings_.world_size &&
                          std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (!is_sound || own == ranks.end())
        throw UsageError(
            "a sub-group of " + text_of(ranks) + ", made by " + text_of({settings_.rank}) +
            ": it takes different ranks from 0 to " + std::to_string(settings_.world_size - 1) +
            ", this one among them");
    if (!founding_) throw UsageError("this group was not made from a store and has no sub-groups");

    auto founding = *founding_;
    std::string name;
    for (const int rank : ranks)
        name += (name.empty() ? "" : "-") + std::to_string(rank);
    const std::lock_guard lock(mutex_);
    founding.prefix += "sub" + name + "." + std::to_string(sub_group_counts_[ranks]++) + "/";
    founding.members.clear();
    for (const int rank : ranks)
        founding.members.push_back(
            founding_->members.empty() ? rank : founding_->members[static_cast<std::size_t>(rank)]);
    founding.world.rank = static_cast<int>(own - ranks.begin());
    founding.world.world_size = static_cast<int>(ranks.size());
    return founding;
}

}  // namespace ddprun::groups
