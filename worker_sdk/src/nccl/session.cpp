// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/session.hpp"

#include "rendezvous/base/signal_masked_thread.hpp"
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/nccl/unique_id.hpp"
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

GroupError aborted() {
    return {GroupError::Kind::peer_lost, "aborted"};
}

/// A thread still uses it.
void keep_for_ever(std::unique_ptr<Communicators> comms) {
    static auto* const mutex = new std::mutex;
    static auto* const kept = new std::vector<std::unique_ptr<Communicators>>;
    const std::lock_guard lock(*mutex);
    kept->push_back(std::move(comms));
}

/// One communicator's rendezvous in the store.
class Meeting {
public:
    Meeting(const DdprunStore& store, std::string prefix)
        : store_(store),
          prefix_(std::move(prefix)) {}

    Outcome announce(int index, const Announcement& announcement) {
        const auto bytes = written(announcement);
        return outcome_of(
            store_.set(store_.self, key_of(index).c_str(), bytes.data(), bytes.size()));
    }

    std::variant<Announcement, GroupError> await(int index) {
        std::string bytes;
        const auto take = [](void* sink, const char* data, std::size_t size) {
            static_cast<std::string*>(sink)->assign(data, size);
        };
        if (auto failed = outcome_of(store_.get(store_.self, key_of(index).c_str(), &bytes, take)))
            return *failed;
        return read_announcement(bytes);
    }

private:
    std::string key_of(int index) const { return prefix_ + announcement_key(index); }

    /// The SDK's side has a more precise error.
    static Outcome outcome_of(int kind) {
        if (kind == 0) return {};
        return GroupError{static_cast<GroupError::Kind>(kind), "the store failed"};
    }

    DdprunStore store_;
    std::string prefix_;
};

/// The ids of all roots, the same on all ranks.
std::variant<std::vector<abi::UniqueId>, GroupError> agree_on_ids(
    const NcclFunctions& nccl, Meeting meeting, int rank, int world_size) {
    const int roots = root_count(world_size, nccl.version);
    for (int i = 0; i < roots; ++i) {
        if (root_rank(i, roots, world_size) != rank) continue;
        Announcement announcement{{}, nccl.version, world_size};
        const SignalsMasked masked;  // NCCL starts a permanent thread here
        const auto result = nccl.get_unique_id(&announcement.id);
        if (result != abi::Result::success)
            return GroupError{
                GroupError::Kind::other, "NCCL cannot make an id: " + nccl.words_of(result)};
        if (auto failed = meeting.announce(i, announcement)) return *failed;
    }
    std::vector<abi::UniqueId> ids;
    for (int i = 0; i < roots; ++i) {
        auto announced = meeting.await(i);
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
    const NcclFunctions& nccl, const Device& device, const DdprunDeviceOpen& settings) {
    auto session = std::make_unique<Session>(nccl, device, settings);
    const Overseer::Watch watch(
        session->overseer_,
        Overseer::Work::life,
        session->last_moment_of(milliseconds(settings.timeout_ms)));
    const OnDevice here(device);
    if (auto error = session->start()) {
        session->abort();
        return *error;
    }
    return session;
}

Session::Session(const NcclFunctions& nccl, const Device& device, const DdprunDeviceOpen& settings)
    : nccl_(nccl),
      device_(device),
      settings_(settings),
      overseer_([this](const std::string& text) {
          settings_.end_process(settings_.self, text.c_str());
      }) {
    comms_ = std::make_unique<Communicators>(
        nccl_,
        Communicators::Settings{
            milliseconds(settings_.abort_timeout_ms),
            [this](const std::string& text) {
                settings_.end_process(settings_.self, text.c_str());
            },
            [this] { write_soundness(0); },
            // Used by a thread that may be left running (keep_for_ever).
            [on = device_](const std::function<void()>& body) {
                const OnDevice device_here(on);
                body();
            }});
}

Session::~Session() {
    const Overseer::Watch watch(
        overseer_, Overseer::Work::life, last_moment_of(waiting_times::finalize_timeout));
    const OnDevice here(device_);
    if (!comms_->end()) keep_for_ever(std::move(comms_));
    comms_.reset();
    if (scratch_) device_.driver().memory_free(scratch_);
}

Outcome Session::start() {
    for (auto& queue : queues_) {
        queue = std::make_unique<Queue>(device_);
        if (queue->error()) return queue->error();
    }
    flight_.emplace(device_);
    if (flight_->error()) return flight_->error();
    staging_.emplace(device_);
    is_sound_.emplace(device_, sizeof(std::uint32_t));
    if (const auto status = is_sound_->status()) return device_.error(status);
    write_soundness(1);
    const auto& driver = device_.driver();
    if (const auto status = driver.memory_allocate(&scratch_, scratch_bytes))
        return device_.error(status);
    if (const auto status =
            driver.memory_set(scratch_, 0, scratch_bytes, queues_.front()->stream()))
        return device_.error(status);
    const auto patience = patience_for(milliseconds(settings_.timeout_ms));
    auto joined = settings_.part ? take_part(patience)
                                 : join("all/", settings_.rank, settings_.world_size, 0, patience);
    if (auto* error = std::get_if<GroupError>(&joined)) return *error;
    all_ = std::get<Comm>(joined);
    return {};
}

void Session::write_soundness(std::uint32_t word) {
    if (is_sound_ && is_sound_->data())
        reinterpret_cast<std::atomic<std::uint32_t>*>(is_sound_->data())->store(word);
}

Target Session::target(DriverFunctions::Stream stream) const {
    return {nccl_, all_, stream, settings_.rank, settings_.world_size};
}

void Session::note_steps() {
    comms_->wait_for_aborts(std::max(milliseconds(settings_.abort_timeout_ms), timeout()));
}

milliseconds Session::timeout() const {
    return milliseconds(settings_.timeout_ms);
}

Patience Session::patience() const {
    return patience_for(timeout());
}

Outcome Session::look() {
    if (auto reason = why_aborted()) return reason;
    if (settings_.is_given_up(settings_.self) != 0) return aborted();
    const auto state = comms_->state(all_);
    if (state == abi::Result::success || state == abi::Result::in_progress) return {};
    if (auto reason = why_aborted()) return reason;  // meanwhile
    return comms_->error_of(state);
}

Patience Session::patience_for(milliseconds timeout) const {
    return {Clock::now() + timeout, [this] { return settings_.is_given_up(settings_.self) != 0; }};
}

/// Includes the time for the handling of a failure: the abort, and the kernels' end.
Clock::time_point Session::last_moment_of(milliseconds timeout) const {
    return last_moment_after(Clock::now() + timeout);
}

Clock::time_point Session::last_moment_after(Clock::time_point end) const {
    return end + 3 * milliseconds(settings_.abort_timeout_ms);
}

Session::Joined Session::join(
    const std::string& name, int rank, int world_size, int most_ctas, const Patience& patience) {
    auto agreed = agree_on_ids(nccl_, Meeting(settings_.store, "nccl/" + name), rank, world_size);
    if (auto* error = std::get_if<GroupError>(&agreed)) return *error;
    return comms_->join(
        std::get<std::vector<abi::UniqueId>>(std::move(agreed)),
        rank,
        world_size,
        most_ctas,
        patience);
}

Session::Joined Session::take_part(const Patience& patience) {
    auto& parent = static_cast<Session*>(settings_.parent)->communicators();
    return comms_->adopt(parent, static_cast<Comm>(settings_.part), patience);
}

std::variant<Communicators::Comm, GroupError> Session::split(int color, int key) {
    const Overseer::Watch watch(
        overseer_, Overseer::Work::life, last_moment_of(timeout() + patience_after_abort()));
    const OnDevice here(device_);
    auto part = comms_->split(all_, color, key, patience());
    if (auto* error = std::get_if<GroupError>(&part)) {
        give_up(std::move(*error));
        return *why_aborted();
    }
    return part;
}

void Session::drop(Comm part) {
    const Overseer::Watch watch(
        overseer_, Overseer::Work::life, last_moment_of(patience_after_abort()));
    const OnDevice here(device_);
    comms_->drop(part);
}

/// Between two ranks the sender is 0.
Session::Joined Session::comm_of(const DdprunCollective& collective, const Patience& patience) {
    const auto kind = static_cast<Kind>(collective.kind);
    if (kind != Kind::send && kind != Kind::recv) return all_;
    const std::pair pair(collective.root, collective.receiver);
    {
        const std::lock_guard lock(messages_mutex_);
        if (const auto known = messages_.find(pair); known != messages_.end()) return known->second;
    }
    const auto name = std::to_string(pair.first) + "-" + std::to_string(pair.second) + "/";
    auto joined = join(name, kind == Kind::send ? 0 : 1, 2, message_ctas, patience);
    if (auto* comm = std::get_if<Comm>(&joined)) {
        const std::lock_guard lock(messages_mutex_);
        messages_[pair] = *comm;
    }
    return joined;
}

Overseer::Work Session::work_of(const DdprunCollective& collective) {
    const auto kind = static_cast<Kind>(collective.kind);
    return kind == Kind::send   ? Overseer::Work::send
           : kind == Kind::recv ? Overseer::Work::recv
                                : Overseer::Work::collective;
}

/// On the device, and of all ranks: a message may first need a communicator.
bool Session::may_fly(const DdprunCollective& collective) {
    return !collective.is_on_host && work_of(collective) == Overseer::Work::collective;
}

/// Applies to the whole queue at once: earlier calls that have not begun yet wait too.
Outcome Session::follow(const DdprunCollective& collective) {
    const OnDevice here(device_);
    if (device_.is_capturing(collective.stream))
        return GroupError{
            GroupError::Kind::usage, "cannot be captured into a CUDA graph; a Reducer's steps can"};
    if (collective.is_on_host) return {};
    const auto& queue = *queues_[static_cast<std::size_t>(work_of(collective))];
    if (const auto status = queue.follow(collective.stream)) return fail(device_.error(status));
    return {};
}

GroupError Session::fail(GroupError error) {
    const Overseer::Watch watch(
        overseer_, Overseer::Work::launch, last_moment_of(patience_after_abort()));
    give_up(std::move(error));
    return *why_aborted();
}

std::variant<bool, GroupError> Session::begin(const DdprunCollective& collective) {
    const OnDevice here(device_);
    if (!may_fly(collective) || flight_->is_full()) return false;
    auto begun = [&] {
        const Overseer::Watch watch(overseer_, Overseer::Work::launch, last_moment_of(timeout()));
        return take_off(collective);
    }();
    auto* const error = std::get_if<GroupError>(&begun);
    if (!error) return begun;
    return fail(std::move(*error));
}

/// False: NCCL has not enqueued the one before yet.
std::variant<bool, GroupError> Session::take_off(const DdprunCollective& collective) {
    if (flight_->is_newest_open()) {
        const Patience patience{Clock::now() + waiting_times::take_timeout, [] { return false; }};
        std::unique_lock taking(taking_mutex_, std::try_to_lock);
        // Not a timed_mutex: gcc 12's ThreadSanitizer does not support it.
        for (Pause pause; !taking && Clock::now() < patience.until; pause.take())
            if (taking.try_lock()) break;
        // An error of the one before is reported by its own wait.
        if (!taking || await_taken(patience)) return false;
    }
    const auto& queue = *queues_.front();
    auto error = comms_->begin_call([&] {
        return enqueue(target(queue.stream()), collective, reinterpret_cast<void*>(scratch_));
    });
    if (error) return std::move(*error);
    flight_->add();
    return true;
}

/// After it there is an event behind the newest. Requires: taking_mutex_.
Outcome Session::await_taken(const Patience& patience) {
    if (!flight_->is_newest_open()) return {};
    if (auto error = comms_->await_ready(all_, patience)) return error;
    const auto stream = queues_.front()->stream();
    if (const auto status = device_.driver().event_record(flight_->newest_end(), stream))
        return device_.error(status);
    flight_->close_newest();
    return {};
}

/// Ends the oldest in flight, without waiting for NCCL's work on a later one.
Outcome Session::land(const Patience& patience) {
    if (flight_->is_oldest_open()) {
        const std::lock_guard taking(taking_mutex_);
        // Checked again: a launch may have closed it, and begun the next.
        if (flight_->is_oldest_open())
            if (auto error = await_taken(patience)) return error;
    }
    const auto look = [&, end = flight_->oldest_end()] {
        return device_.driver().event_query(end);
    };
    if (auto error = await(look, all_, patience)) return error;
    flight_->remove_oldest();
    return {};
}

Outcome Session::run(const DdprunCollective& collective) {
    const auto work = work_of(collective);
    const auto timeout = milliseconds(collective.timeout_ms);
    const OnDevice here(device_);
    auto& queue = *queues_[static_cast<std::size_t>(work)];
    auto error = [&] {
        const auto patience = patience_for(timeout);
        const Overseer::Watch watch(overseer_, work, last_moment_after(patience.until));
        return perform(collective, queue, patience);
    }();
    if (!error) return {};
    const Overseer::Watch watch(overseer_, work, last_moment_of(2 * patience_after_abort()));
    give_up(*error);
    // Behind all work: NCCL may have enqueued calls behind which there is no event yet.
    queue.mark_end();
    await_idle([&] { return queue.look() != DriverFunctions::not_ready; });
    if (work == Overseer::Work::collective && !flight_->is_empty()) flight_->remove_oldest();
    return why_aborted();  // the first of several errors, which a watchdog may have found
}

Outcome Session::perform(
    const DdprunCollective& collective, Queue& queue, const Patience& patience) {
    if (may_fly(collective)) {
        if (flight_->is_empty()) {
            auto begun = take_off(collective);
            if (auto* error = std::get_if<GroupError>(&begun)) return std::move(*error);
            if (!std::get<bool>(begun)) return aborted();  // nothing is in flight, so nothing else
        }
        return land(patience);
    }
    auto joined = comm_of(collective, patience);
    if (auto* error = std::get_if<GroupError>(&joined)) return *error;
    const auto comm = std::get<Comm>(joined);
    const auto look = [&] { return queue.look(); };
    if (!collective.is_on_host) {
        if (auto error = enqueue_in(queue, comm, collective, patience)) return error;
        return await(look, comm, patience);
    }
    auto staged = collective;
    if (const auto status = staging_->send(staged, settings_.rank, settings_.world_size, queue))
        return device_.error(status);
    if (auto error = enqueue_in(queue, comm, staged, patience)) return error;
    if (const auto status = staging_->fetch(queue)) return device_.error(status);
    if (auto error = await(look, comm, patience)) return error;
    staging_->take(collective);
    return {};
}

Outcome Session::enqueue_in(
    Queue& queue, Comm comm, const DdprunCollective& collective, const Patience& patience) {
    auto where = target(queue.stream());
    where.comm = comm;
    auto outcome = comms_->call(
        comm,
        [&] { return enqueue(where, collective, reinterpret_cast<void*>(scratch_)); },
        patience);
    if (outcome) return outcome;
    if (const auto status = queue.mark_end()) return device_.error(status);
    return {};
}

Outcome Session::await(
    const std::function<DriverFunctions::Status()>& look, Comm comm, const Patience& patience) {
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
            if (patience.is_given_up()) return aborted();
            const auto state = comms_->state(comm);
            if (state != abi::Result::success && state != abi::Result::in_progress)
                return comms_->error_of(state);
            look_at_state = now + waiting_times::nccl_state_interval;
        }
        if (now >= patience.until)
            return GroupError{GroupError::Kind::timeout, "not done within the group's timeout"};
    }
}

/// An abort that has ended has made the kernels leave; more than a moment means that the device is
/// stuck.
void Session::await_idle(const std::function<bool()>& is_over) const {
    const auto until = Clock::now() + patience_after_abort();
    for (Pause pause; !is_over(); pause.take())
        if (Clock::now() >= until)
            settings_.end_process(
                settings_.self,
                "a collective's kernel is still running after NCCL's abort; this process ends so "
                "that the launcher can start another");
}

void Session::give_up(GroupError why) {
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
