// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/session.hpp"

#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/nccl/unique_id.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::nccl {

namespace {

using groups::Outcome;
using groups::Trouble;
using Kind = groups::Collective::Kind;
using std::chrono::milliseconds;

/// Messages are few and should leave the GPU to the rest.
constexpr int message_ctas = 2;
constexpr std::size_t scratch_bytes = 4;
/// Between two looks at what NCCL has noticed.
constexpr milliseconds between_states{5};
/// What a farewell may take, beside an abort.
constexpr milliseconds longest_end{10'000};

Trouble aborted() {
    return {Trouble::Kind::peer_lost, "aborted"};
}

/// A thread still works on it.
void keep_for_ever(std::unique_ptr<Communicators> comms) {
    static auto* const mutex = new std::mutex;
    static auto* const kept = new std::vector<std::unique_ptr<Communicators>>;
    const std::lock_guard lock(*mutex);
    kept->push_back(std::move(comms));
}

/// One communicator's meeting in the store.
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

    std::variant<Announcement, Trouble> await(int index) {
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

    /// The SDK's side knows more and says it instead.
    static Outcome outcome_of(int kind) {
        if (kind == 0) return {};
        return Trouble{static_cast<Trouble::Kind>(kind), "the store failed"};
    }

    DdprunStore store_;
    std::string prefix_;
};

/// The ids of all roots, the same on all ranks.
std::variant<std::vector<abi::UniqueId>, Trouble> agree_on_ids(
    const NcclFunctions& nccl, Meeting meeting, int rank, int world_size) {
    const int roots = root_count(world_size, nccl.version);
    for (int i = 0; i < roots; ++i) {
        if (root_rank(i, roots, world_size) != rank) continue;
        Announcement announcement{{}, nccl.version, world_size};
        const auto result = nccl.get_unique_id(&announcement.id);
        if (result != abi::Result::success)
            return Trouble{
                Trouble::Kind::other, "NCCL cannot make an id: " + nccl.words_of(result)};
        if (auto failed = meeting.announce(i, announcement)) return *failed;
    }
    std::vector<abi::UniqueId> ids;
    for (int i = 0; i < roots; ++i) {
        auto announced = meeting.await(i);
        if (auto* failed = std::get_if<Trouble>(&announced)) return *failed;
        const auto& theirs = std::get<Announcement>(announced);
        const int root = root_rank(i, roots, world_size);
        if (auto differs = compare(theirs, root, nccl.version, world_size, rank)) return *differs;
        ids.push_back(theirs.id);
    }
    return ids;
}

}  // namespace

std::variant<std::unique_ptr<Session>, Trouble> Session::open(
    const NcclFunctions& nccl, const Device& device, const DdprunDeviceOpen& settings) {
    auto session = std::make_unique<Session>(nccl, device, settings);
    const Overseer::Watch watch(
        session->overseer_,
        Overseer::Work::life,
        session->last_moment_of(milliseconds(settings.timeout_ms)));
    const OnDevice here(device);
    if (auto trouble = session->start()) {
        session->abort();
        return *trouble;
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
            // Of a thread that may be left behind (keep_for_ever).
            [on = device_](const std::function<void()>& body) {
                const OnDevice device_here(on);
                body();
            }});
}

Session::~Session() {
    const Overseer::Watch watch(overseer_, Overseer::Work::life, last_moment_of(longest_end));
    const OnDevice here(device_);
    if (!comms_->end()) keep_for_ever(std::move(comms_));
    comms_.reset();
    if (scratch_) device_.driver().memory_free(scratch_);
}

Outcome Session::start() {
    for (auto& queue : queues_) {
        queue = std::make_unique<Queue>(device_);
        if (queue->trouble()) return queue->trouble();
    }
    staging_.emplace(device_);
    is_sound_.emplace(device_, sizeof(std::uint32_t));
    if (const auto status = is_sound_->status()) return driver_trouble(status);
    write_soundness(1);
    const auto& driver = device_.driver();
    if (const auto status = driver.memory_allocate(&scratch_, scratch_bytes))
        return driver_trouble(status);
    if (const auto status =
            driver.memory_set(scratch_, 0, scratch_bytes, queues_.front()->stream()))
        return driver_trouble(status);
    const auto patience = patience_for(milliseconds(settings_.timeout_ms));
    auto joined = join("all/", settings_.rank, settings_.world_size, 0, patience);
    if (auto* trouble = std::get_if<Trouble>(&joined)) return *trouble;
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
    return comms_->trouble_of(state);
}

Patience Session::patience_for(milliseconds timeout) const {
    return {Clock::now() + timeout, [this] { return settings_.is_given_up(settings_.self) != 0; }};
}

/// When everything that a failure brings along is over too: the abort, and the kernels' end.
Clock::time_point Session::last_moment_of(milliseconds timeout) const {
    return Clock::now() + timeout + 3 * milliseconds(settings_.abort_timeout_ms);
}

Session::Joined Session::join(
    const std::string& name, int rank, int world_size, int most_ctas, const Patience& patience) {
    auto agreed = agree_on_ids(nccl_, Meeting(settings_.store, "nccl/" + name), rank, world_size);
    if (auto* trouble = std::get_if<Trouble>(&agreed)) return *trouble;
    return comms_->join(
        std::get<std::vector<abi::UniqueId>>(std::move(agreed)),
        rank,
        world_size,
        most_ctas,
        patience);
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

Outcome Session::run(const DdprunCollective& collective) {
    const auto work = work_of(collective);
    const auto timeout = milliseconds(collective.timeout_ms);
    const OnDevice here(device_);
    auto& queue = *queues_[static_cast<std::size_t>(work)];
    auto trouble = [&] {
        const Overseer::Watch watch(overseer_, work, last_moment_of(timeout));
        return perform(collective, queue, patience_for(timeout));
    }();
    if (!trouble) return {};
    const Overseer::Watch watch(overseer_, work, last_moment_of(2 * patience_after_abort()));
    give_up(*trouble);
    await_idle([&] { return queue.look() != DriverFunctions::not_ready; });
    return why_aborted();  // the first of several reasons, which a watchdog may have found
}

Outcome Session::perform(
    const DdprunCollective& collective, Queue& queue, const Patience& patience) {
    auto joined = comm_of(collective, patience);
    if (auto* trouble = std::get_if<Trouble>(&joined)) return *trouble;
    const auto comm = std::get<Comm>(joined);
    if (!collective.is_on_host) {
        if (collective.stream)
            if (const auto status = queue.follow(collective.stream)) return driver_trouble(status);
        if (auto trouble = enqueue_in(queue, comm, collective, patience)) return trouble;
        return await(queue, comm, patience);
    }
    auto staged = collective;
    if (const auto status = staging_->send(staged, settings_.rank, settings_.world_size, queue))
        return driver_trouble(status);
    if (auto trouble = enqueue_in(queue, comm, staged, patience)) return trouble;
    if (const auto status = staging_->fetch(queue)) return driver_trouble(status);
    if (auto trouble = await(queue, comm, patience)) return trouble;
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
    if (const auto status = queue.mark_end()) return driver_trouble(status);
    return {};
}

Outcome Session::await(Queue& queue, Comm comm, const Patience& patience) {
    auto look_at_state = Clock::now() + between_states;
    for (Pause pause;; pause.take()) {
        const auto status = queue.look();
        // Asked in this order: a kernel that an abort has ended counts as done too.
        if (comms_->is_aborted()) return aborted();
        if (status == 0) return {};
        if (status != DriverFunctions::not_ready) return driver_trouble(status);
        const auto now = Clock::now();
        if (now >= look_at_state) {
            if (patience.is_given_up()) return aborted();
            const auto state = comms_->state(comm);
            if (state != abi::Result::success && state != abi::Result::in_progress)
                return comms_->trouble_of(state);
            look_at_state = now + between_states;
        }
        if (now >= patience.until)
            return Trouble{Trouble::Kind::timeout, "not done within the group's timeout"};
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

void Session::give_up(Trouble why) {
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

Trouble Session::driver_trouble(DriverFunctions::Status status) const {
    return {
        Trouble::Kind::other,
        "cuda:" + std::to_string(device_.ordinal()) + ": " + device_.driver().words_of(status)};
}

}  // namespace ddprun::nccl
