// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/session.hpp"

#include "rendezvous/base/signal_masked_thread.hpp"
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/transports/nccl/end_process.hpp"
#include "worker_sdk/src/transports/nccl/unique_id.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::nccl {

namespace {

using groups::GroupError;
using groups::Outcome;
using Kind = groups::Collective::Kind;
using std::chrono::milliseconds;

/// Messages are few and should use little of the GPU.
constexpr int message_ctas = 2;
constexpr std::size_t scratch_bytes = 4;

/// Kept because a thread still uses it.
void keep_for_ever(std::unique_ptr<Communicators> comms) {
    static auto* const mutex = new std::mutex;
    static auto* const kept = new std::vector<std::unique_ptr<Communicators>>;
    const std::lock_guard lock(*mutex);
    kept->push_back(std::move(comms));
}

/// One communicator's rendezvous in the store.
class Rendezvous {
public:
    Rendezvous(GroupContext& context, std::string prefix, GroupContext::Wait& wait)
        : context_(context),
          prefix_(std::move(prefix)),
          wait_(wait) {}

    Outcome announce(int index, const Announcement& announcement) {
        return context_.set(key_of(index), written(announcement), wait_);
    }

    std::variant<Announcement, GroupError> await(int index) {
        auto bytes = context_.get(key_of(index), wait_);
        if (auto* error = std::get_if<GroupError>(&bytes)) return std::move(*error);
        return read_announcement(std::get<std::string>(bytes));
    }

private:
    std::string key_of(int index) const { return prefix_ + announcement_key(index); }

    GroupContext& context_;
    const std::string prefix_;
    GroupContext::Wait& wait_;
};

/// The ids of all roots, the same on all ranks.
std::variant<std::vector<abi::UniqueId>, GroupError> agree_on_ids(
    const NcclFunctions& nccl, Rendezvous rendezvous, int rank, int world_size) {
    const int roots = root_count(world_size, nccl.version);
    for (int i = 0; i < roots; ++i) {
        if (root_rank(i, roots, world_size) != rank) continue;
        Announcement announcement{{}, nccl.version, world_size};
        const SignalsMasked masked;  // NCCL starts a permanent thread here
        const auto result = nccl.get_unique_id(&announcement.id);
        if (result != abi::Result::success)
            return GroupError{
                GroupError::Kind::other, "NCCL cannot make an id: " + nccl.describe(result)};
        if (auto failed = rendezvous.announce(i, announcement)) return *failed;
    }
    std::vector<abi::UniqueId> ids;
    for (int i = 0; i < roots; ++i) {
        auto announced = rendezvous.await(i);
        if (auto* failed = std::get_if<GroupError>(&announced)) return *failed;
        const auto& theirs = std::get<Announcement>(announced);
        const int root = root_rank(i, roots, world_size);
        if (auto differs = compare(theirs, root, nccl.version, world_size, rank)) return *differs;
        ids.push_back(theirs.id);
    }
    return ids;
}

}  // namespace

std::variant<std::unique_ptr<Session>, GroupError> Session::open(
    const NcclFunctions& nccl,
    const Device& device,
    GroupContext& context,
    const std::optional<SplitOff>& split) {
    auto session = std::make_unique<Session>(nccl, device, context);
    const HangWatchdog::Watch watch(
        *session->hang_watchdog_,
        HangWatchdog::Work::life,
        session->latest_end_of(session->timeout()));
    const OnDevice here(device);
    if (auto error = session->start(split)) {
        session->abort();
        return *error;
    }
    return session;
}

Session::Session(const NcclFunctions& nccl, const Device& device, GroupContext& context)
    : nccl_(nccl),
      device_(device),
      context_(context) {
    comms_ = std::make_unique<Communicators>(
        nccl_,
        Communicators::Settings{
            waiting_times::abort_timeout,
            [this] { set_valid_flag(0); },
            // Used by a thread that may be left running (keep_for_ever).
            [on = device_](const std::function<void()>& body) {
                const OnDevice device_here(on);
                body();
            }});
}

Session::~Session() {
    const HangWatchdog::Watch watch(
        *hang_watchdog_, HangWatchdog::Work::life, latest_end_of(waiting_times::finalize_timeout));
    const OnDevice here(device_);
    if (!comms_->end()) keep_for_ever(std::move(comms_));
    comms_.reset();
    if (scratch_) device_.driver().memory_free(scratch_);
}

Outcome Session::start(const std::optional<SplitOff>& split) {
    for (auto& queue : queues_) {
        queue = std::make_unique<Queue>(device_);
        if (queue->error()) return queue->error();
    }
    in_flight_.emplace(device_);
    if (in_flight_->error()) return in_flight_->error();
    staging_.emplace(device_);
    valid_flag_.emplace(device_, sizeof(std::uint32_t));
    if (const auto status = valid_flag_->status()) return device_.error(status);
    set_valid_flag(1);
    const auto& driver = device_.driver();
    if (const auto status = driver.memory_allocate(&scratch_, scratch_bytes))
        return device_.error(status);
    if (const auto status =
            driver.memory_set(scratch_, 0, scratch_bytes, queues_.front()->stream()))
        return device_.error(status);
    GroupContext::Wait wait(context_);
    auto joined = split
                      ? comms_->adopt(split->parent->communicators(), split->part, wait.deadline())
                      : join("all/", context_.rank(), context_.world_size(), 0, wait);
    if (auto* error = std::get_if<GroupError>(&joined)) return *error;
    all_ = std::get<Comm>(joined);
    return {};
}

void Session::set_valid_flag(std::uint32_t word) {
    if (valid_flag_ && valid_flag_->data())
        reinterpret_cast<std::atomic<std::uint32_t>*>(valid_flag_->data())->store(word);
}

Target Session::target(DriverFunctions::Stream stream) const {
    return {nccl_, all_, stream, context_.rank(), context_.world_size()};
}

void Session::note_own_work() {
    comms_->wait_for_aborts(std::max<milliseconds>(waiting_times::abort_timeout, timeout()));
}

Deadline Session::deadline() {
    return {Clock::now() + timeout(), [this] { return context_.has_failed(); }};
}

Outcome Session::look() {
    if (auto reason = why_aborted()) return reason;
    if (context_.has_failed()) return aborted();
    const auto state = comms_->state(all_);
    if (state == abi::Result::success || state == abi::Result::in_progress) return {};
    if (auto reason = why_aborted()) return reason;  // it was aborted meanwhile
    return comms_->error_of(state);
}

/// The latest time by which a failure after this timeout has been handled: the abort is done, and
/// the kernels have ended.
Clock::time_point Session::latest_end_of(milliseconds timeout) const {
    return latest_end_after(Clock::now() + timeout);
}

Clock::time_point Session::latest_end_after(Clock::time_point end) const {
    return end + 3 * waiting_times::abort_timeout;
}

Session::Joined Session::join(
    const std::string& name, int rank, int world_size, int most_ctas, GroupContext::Wait& wait) {
    auto agreed = agree_on_ids(nccl_, Rendezvous(context_, "nccl/" + name, wait), rank, world_size);
    if (auto* error = std::get_if<GroupError>(&agreed)) return *error;
    return comms_->join(
        std::get<std::vector<abi::UniqueId>>(std::move(agreed)),
        rank,
        world_size,
        most_ctas,
        wait.deadline());
}

std::variant<Communicators::Comm, GroupError> Session::split(int color, int key) {
    const HangWatchdog::Watch watch(
        *hang_watchdog_, HangWatchdog::Work::life, latest_end_of(timeout() + abort_timeout()));
    const OnDevice here(device_);
    auto part = comms_->split(all_, color, key, deadline());
    if (auto* error = std::get_if<GroupError>(&part)) {
        abort(std::move(*error));
        return *why_aborted();
    }
    return part;
}

void Session::drop(Comm part) {
    const HangWatchdog::Watch watch(
        *hang_watchdog_, HangWatchdog::Work::life, latest_end_of(abort_timeout()));
    const OnDevice here(device_);
    comms_->drop(part);
}

/// In a communicator of two ranks the sender is 0.
Session::Joined Session::comm_of(const groups::Collective& collective, GroupContext::Wait& wait) {
    if (!collective.is_point_to_point()) return all_;
    const std::pair pair(collective.root, collective.receiver);
    {
        const std::lock_guard lock(messages_mutex_);
        if (const auto known = messages_.find(pair); known != messages_.end()) return known->second;
    }
    const auto name = std::to_string(pair.first) + "-" + std::to_string(pair.second) + "/";
    auto joined = join(name, collective.kind == Kind::send ? 0 : 1, 2, message_ctas, wait);
    if (auto* comm = std::get_if<Comm>(&joined)) {
        const std::lock_guard lock(messages_mutex_);
        messages_[pair] = *comm;
    }
    return joined;
}

HangWatchdog::Work Session::work_of(const groups::Collective& collective) {
    const auto kind = collective.kind;
    return kind == Kind::send   ? HangWatchdog::Work::send
           : kind == Kind::recv ? HangWatchdog::Work::recv
                                : HangWatchdog::Work::collective;
}

/// True only for calls of all ranks with buffers on the device, since a message may first need a
/// communicator.
bool Session::can_be_in_flight(const groups::Collective& collective) {
    return !collective.is_on_host && work_of(collective) == HangWatchdog::Work::collective;
}

/// Applies to the whole queue at once: earlier calls that have not begun yet wait for the stream
/// too.
Outcome Session::follow(const groups::Collective& collective) {
    const OnDevice here(device_);
    if (device_.is_capturing(collective.stream))
        return GroupError{
            GroupError::Kind::usage, "cannot be captured into a CUDA graph; a Reducer's steps can"};
    if (collective.is_on_host) return {};
    const auto& queue = *queues_[static_cast<std::size_t>(work_of(collective))];
    if (const auto status = queue.follow(collective.stream)) return fail(device_.error(status));
    return {};
}

Outcome Session::precede(const groups::Collective& collective, DriverFunctions::Stream stream) {
    const OnDevice here(device_);
    if (device_.is_capturing(stream))
        return GroupError{
            GroupError::Kind::usage,
            "a stream that is being captured into a CUDA graph cannot wait for a call outside it"};
    note_own_work();
    auto error = [&] {
        const HangWatchdog::Watch watch(
            *hang_watchdog_, HangWatchdog::Work::launch, latest_end_of(timeout()));
        return precede_now(collective, stream);
    }();
    if (!error) return {};
    return fail(std::move(*error));
}

Outcome Session::precede_now(const groups::Collective& collective, DriverFunctions::Stream stream) {
    if (in_flight_->is_open(collective.sequence)) {
        const std::lock_guard lock(enqueued_mutex_);
        if (auto error = await_enqueued(deadline())) return error;
    }
    const auto end = in_flight_->end_of(collective.sequence);
    if (!end) return {};  // it is done
    if (const auto status = device_.driver().stream_wait_event(stream, end, 0))
        return device_.error(status);
    return {};
}

GroupError Session::fail(GroupError error) {
    const HangWatchdog::Watch watch(
        *hang_watchdog_, HangWatchdog::Work::launch, latest_end_of(abort_timeout()));
    abort(std::move(error));
    return *why_aborted();
}

std::variant<bool, GroupError> Session::begin(const groups::Collective& collective) {
    const OnDevice here(device_);
    if (!can_be_in_flight(collective) || in_flight_->is_full()) return false;
    auto begun = [&] {
        const HangWatchdog::Watch watch(
            *hang_watchdog_, HangWatchdog::Work::launch, latest_end_of(timeout()));
        return enqueue_now(collective);
    }();
    auto* const error = std::get_if<GroupError>(&begun);
    if (!error) return begun;
    return fail(std::move(*error));
}

/// Returns false when NCCL has not yet enqueued the previous call.
std::variant<bool, GroupError> Session::enqueue_now(const groups::Collective& collective) {
    if (in_flight_->is_newest_open()) {
        const Deadline deadline{Clock::now() + waiting_times::take_timeout, [] { return false; }};
        std::unique_lock lock(enqueued_mutex_, std::try_to_lock);
        // Not a timed_mutex: gcc 12's ThreadSanitizer does not support it.
        for (Pause pause; !lock && Clock::now() < deadline.until; pause.take())
            if (lock.try_lock()) break;
        // The wait for the previous call reports the error of that call.
        if (!lock || await_enqueued(deadline)) return false;
    }
    const auto& queue = *queues_.front();
    auto error = comms_->begin_call([&] {
        return enqueue(target(queue.stream()), collective, reinterpret_cast<void*>(scratch_));
    });
    if (error) return std::move(*error);
    in_flight_->add(collective.sequence);
    return true;
}

/// Waits until NCCL has enqueued the newest call and its event is recorded. Requires:
/// enqueued_mutex_ is held.
Outcome Session::await_enqueued(const Deadline& deadline) {
    if (!in_flight_->is_newest_open()) return {};
    if (auto error = comms_->await_ready(all_, deadline)) return error;
    const auto stream = queues_.front()->stream();
    if (const auto status = device_.driver().event_record(in_flight_->newest_end(), stream))
        return device_.error(status);
    in_flight_->close_newest();
    return {};
}

/// Waits for the oldest call in flight, not for NCCL's work on a later one.
Outcome Session::complete_oldest(const Deadline& deadline) {
    if (in_flight_->is_oldest_open()) {
        const std::lock_guard lock(enqueued_mutex_);
        // Checked again: another launch may have closed this call and begun the next one.
        if (in_flight_->is_oldest_open())
            if (auto error = await_enqueued(deadline)) return error;
    }
    const auto look = [&, end = in_flight_->oldest_end()] {
        return device_.driver().event_query(end);
    };
    if (auto error = await(look, all_, deadline)) return error;
    in_flight_->remove_oldest();
    return {};
}

Outcome Session::run(const groups::Collective& collective, milliseconds timeout) {
    const auto work = work_of(collective);
    GroupContext::Wait wait(context_, collective, timeout);
    const OnDevice here(device_);
    auto& queue = *queues_[static_cast<std::size_t>(work)];
    auto error = [&] {
        const HangWatchdog::Watch watch(
            *hang_watchdog_, work, latest_end_after(wait.deadline().until));
        return perform(collective, queue, wait);
    }();
    if (!error) {
        wait.end();
        return {};
    }
    const HangWatchdog::Watch watch(*hang_watchdog_, work, latest_end_of(2 * abort_timeout()));
    abort(*error);
    // Recorded after all work: NCCL may have enqueued calls that have no event yet.
    queue.mark_end();
    await_idle([&] { return queue.look() != DriverFunctions::not_ready; });
    if (work == HangWatchdog::Work::collective && !in_flight_->is_empty())
        in_flight_->remove_oldest();
    return why_aborted();  // the first of several errors, perhaps found by a watchdog
}

Outcome Session::perform(
    const groups::Collective& collective, Queue& queue, GroupContext::Wait& wait) {
    const auto deadline = wait.deadline();
    if (can_be_in_flight(collective)) {
        if (in_flight_->is_empty()) {
            auto begun = enqueue_now(collective);
            if (auto* error = std::get_if<GroupError>(&begun)) return std::move(*error);
            if (!std::get<bool>(begun)) return aborted();  // nothing is in flight to wait for
        }
        return complete_oldest(deadline);
    }
    auto joined = comm_of(collective, wait);
    if (auto* error = std::get_if<GroupError>(&joined)) return *error;
    const auto comm = std::get<Comm>(joined);
    const auto look = [&] { return queue.look(); };
    if (!collective.is_on_host) {
        if (auto error = enqueue_in(queue, comm, collective, deadline)) return error;
        return await(look, comm, deadline);
    }
    auto staged = collective;
    if (const auto status = staging_->send(staged, context_.rank(), context_.world_size(), queue))
        return device_.error(status);
    if (auto error = enqueue_in(queue, comm, staged, deadline)) return error;
    if (const auto status = staging_->fetch(queue)) return device_.error(status);
    if (auto error = await(look, comm, deadline)) return error;
    staging_->take(collective);
    return {};
}

Outcome Session::enqueue_in(
    Queue& queue, Comm comm, const groups::Collective& collective, const Deadline& deadline) {
    auto where = target(queue.stream());
    where.comm = comm;
    auto outcome = comms_->call(
        comm,
        [&] { return enqueue(where, collective, reinterpret_cast<void*>(scratch_)); },
        deadline);
    if (outcome) return outcome;
    if (const auto status = queue.mark_end()) return device_.error(status);
    return {};
}

Outcome Session::await(
    const std::function<DriverFunctions::Status()>& look, Comm comm, const Deadline& deadline) {
    std::optional<Clock::time_point> look_at_state;
    for (Pause pause;; pause.take()) {
        const auto status = look();
        // Checked in this order: a kernel that an abort has ended counts as done too.
        if (comms_->is_aborted()) return aborted();
        if (status == 0) return {};
        if (status != DriverFunctions::not_ready) return device_.error(status);
        const auto now = Clock::now();
        if (!look_at_state) look_at_state = now + waiting_times::nccl_state_interval;
        if (now >= *look_at_state) {
            if (deadline.is_cancelled()) return aborted();
            const auto state = comms_->state(comm);
            if (state != abi::Result::success && state != abi::Result::in_progress)
                return comms_->error_of(state);
            look_at_state = now + waiting_times::nccl_state_interval;
        }
        if (now >= deadline.until)
            return GroupError{GroupError::Kind::timeout, "not done within the group's timeout"};
    }
}

/// After an abort the kernels end soon; when this takes more than a moment, the device is stuck.
void Session::await_idle(const std::function<bool()>& is_over) const {
    const auto until = Clock::now() + abort_timeout();
    for (Pause pause; !is_over(); pause.take())
        if (Clock::now() >= until)
            end_process(
                "a collective's kernel is still running after NCCL's abort; this process ends so "
                "that the launcher can start another");
}

void Session::abort(GroupError why) {
    {
        const std::lock_guard lock(reason_mutex_);
        if (!reason_) reason_ = std::move(why);
    }
    comms_->abort();
}

Outcome Session::why_aborted() {
    if (!comms_->is_aborted()) return {};
    const std::lock_guard lock(reason_mutex_);
    return reason_ ? reason_ : aborted();
}

void Session::abort() {
    const OnDevice here(device_);
    comms_->abort();
}

bool Session::is_broken() {
    const OnDevice here(device_);
    const auto state = comms_->state(all_);
    return state != abi::Result::success && state != abi::Result::in_progress;
}

}  // namespace ddprun::nccl
