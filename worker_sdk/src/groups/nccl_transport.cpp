// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/nccl_transport.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/groups/device_access.hpp"
#include "worker_sdk/src/groups/host/peers.hpp"
#include "worker_sdk/src/groups/plugin.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"
#include "worker_sdk/src/record/error_file.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// An abort takes NCCL some milliseconds.
constexpr milliseconds longest_abort = 5s;
/// How often whoever waits asks the store: soon after the wait has begun, then less often, since
/// hundreds of ranks may.
constexpr milliseconds first_look_after = 100ms;
constexpr milliseconds longest_between_looks = 1s;
/// Between two questions for a key that a peer will set.
constexpr milliseconds shortest_nap = 1ms;
constexpr milliseconds longest_nap = 50ms;

/// A peer that is done with the last collective may have ended before this rank has seen that it is
/// done too. What it gave is under way; after this it was not enough.
constexpr milliseconds patience_after_a_death = 250ms;

/// NCCL may notice a broken connection before anybody has said who is gone: so long it is asked.
constexpr milliseconds patience_for_a_name = 1500ms;
constexpr milliseconds between_questions = 10ms;
/// A store that is slow to answer must not be all that is looked at: a death takes two looks.
constexpr int fewest_looks = patience_after_a_death / between_questions + 5;
/// Who waits for longer than a second says so in the store; of a shorter timeout nothing is known.
constexpr milliseconds shortest_wait_that_tells = 2s;

/// From then on whoever waits says in the store what it waits in, and compares.
constexpr milliseconds quiet_at_first = 1s;

/// What this thread waits in, for the plugin asks back from within.
struct Waiting {
    const Collective& collective;
    const Clock::time_point since = Clock::now();
};
thread_local const Waiting* waiting = nullptr;

/// Nothing else can be done in this process; what is said here is all that the launcher learns.
[[noreturn]] void end_process(const std::string& text) {
    const auto message = "PeerLost: " + text;
    std::fprintf(stderr, "ddprun: %s\n", message.c_str());
    record_errors::remember_path();
    record_errors::write_error_file({message.data(), message.size()}, {});
    ::_exit(1);
}

/// What the plugin sees of the SDK: the store, and whether waiting is still of use. Remembers the
/// first thing that went wrong, which C cannot carry. Any thread.
class Surroundings {
public:
    explicit Surroundings(const NcclSettings& settings)
        : store_(settings.store),
          prefix_(settings.prefix),
          watch_(settings.watch),
          hosts_(settings.hosts),
          rank_(settings.world.rank),
          world_size_(settings.world.world_size),
          until_(Clock::now() + settings.timeout) {
        if (!hosts_ || !hosts_->segment()) return;
        const auto& here = hosts_->all()[hosts_->own()];
        own_seat_ = static_cast<int>(
            std::find(here.begin(), here.end(), settings.world.rank) - here.begin());
        peers_.emplace(*hosts_->segment(), own_seat_);
    }

    DdprunStore store() { return {this, &Surroundings::set, &Surroundings::get}; }

    static int is_given_up(void* self) {
        return static_cast<Surroundings*>(self)->look_for_trouble() ? 1 : 0;
    }

    static void end(void*, const char* text) { end_process(text); }

    /// From here on waiting is for this call.
    void begin_call(milliseconds timeout) {
        const std::lock_guard lock(mutex_);
        const auto now = Clock::now();
        until_ = now + timeout;
        look_at_ = now + first_look_after;
        between_looks_ = first_look_after;
        gone_since_.reset();
    }

    /// What was found out, else what the plugin says. A lost peer has a name where somebody knows
    /// it soon.
    Trouble reason(Trouble trouble) {
        if (trouble.kind == Trouble::Kind::peer_lost) await_name();
        const std::lock_guard lock(mutex_);
        return trouble_ ? *trouble_ : std::move(trouble);
    }

    /// ... of a call: of a timeout also who did not come.
    Trouble reason(Trouble trouble, const Collective& collective, milliseconds timeout) {
        trouble = reason(std::move(trouble));
        const bool is_asked = trouble.kind == Trouble::Kind::timeout && trouble.ranks.empty() &&
                              !collective.is_point_to_point() &&
                              timeout >= shortest_wait_that_tells && !is_given_up_here_;
        if (!is_asked || !watch_) return trouble;
        std::vector<int> others;
        for (int rank = 0; rank < world_size_; ++rank)
            if (rank != rank_) others.push_back(rank);
        trouble.ranks = watch_->unheard(collective, others);
        if (!trouble.ranks.empty())
            trouble.text += "; nothing was heard of " + text_of(trouble.ranks);
        return trouble;
    }

    /// This rank itself has given up: nobody is to be named.
    void give_up() { is_given_up_here_ = true; }

private:
    static int set(void* self, const char* key, const char* data, std::size_t bytes) {
        auto& here = *static_cast<Surroundings*>(self);
        return here.guarded([&] {
            here.store_.set(here.prefix_ + key, {data, bytes});
            return true;
        });
    }

    static int get(
        void* self,
        const char* key,
        void* sink,
        void (*take)(void* sink, const char* data, std::size_t bytes)) {
        auto& here = *static_cast<Surroundings*>(self);
        return here.guarded([&] {
            const auto name = here.prefix_ + key;
            if (!here.await_key(name)) return false;
            const auto value = here.store_.get(name, 10s);
            take(sink, value.data(), value.size());
            return true;
        });
    }

    /// By asking: another thread of this rank may need the connection for the key that a peer waits
    /// for before it sets ours.
    bool await_key(const std::string& name) {
        for (auto nap = shortest_nap; !store_.check({name}); nap = std::min(nap * 2, longest_nap)) {
            if (look_for_trouble()) return false;
            if (is_late()) throw Timeout("a peer did not come: there is no " + name);
            std::this_thread::sleep_for(nap);
        }
        return true;
    }

    bool is_late() {
        const std::lock_guard lock(mutex_);
        return Clock::now() >= until_;
    }

    bool look_for_trouble() {
        if (has_trouble()) return true;
        if (auto lost = look_at_processes()) {
            // It may have ended for a reason that it told.
            remember(watch_->agreed(std::move(*lost)));
        } else if (is_time_to_ask()) {
            const bool is_long = waiting && Clock::now() - waiting->since >= quiet_at_first;
            auto told = is_long ? watch_->look(waiting->collective) : watch_->told();
            if (told) remember(std::move(*told));
        }
        return has_trouble();
    }

    void await_name() {
        {
            const std::lock_guard lock(mutex_);
            look_at_ = {};
            between_looks_ = first_look_after / 2;
        }
        const auto until = Clock::now() + patience_for_a_name;
        for (int looks = 1; !is_given_up_here_ && !look_for_trouble(); ++looks) {
            if (Clock::now() >= until) {
                if (looks >= fewest_looks) return;
                ask_no_more();
            }
            std::this_thread::sleep_for(between_questions);
        }
    }

    /// The store, until the next call begins.
    void ask_no_more() {
        const std::lock_guard lock(mutex_);
        look_at_ = Clock::time_point::max();
    }

    bool has_trouble() {
        const std::lock_guard lock(mutex_);
        return trouble_.has_value();
    }

    /// Between GPUs of one host a death is not seen otherwise: their kernels wait for ever.
    Outcome look_at_processes() {
        if (!peers_) return {};
        const auto& here = hosts_->all()[hosts_->own()];
        for (int seat = 0; seat < static_cast<int>(here.size()); ++seat) {
            if (seat == own_seat_ || !peers_->is_gone(seat)) continue;
            const std::lock_guard lock(mutex_);
            if (!gone_since_) gone_since_ = Clock::now();
            if (Clock::now() - *gone_since_ < patience_after_a_death) return {};
            const int rank = here[static_cast<std::size_t>(seat)];
            return Trouble{
                Trouble::Kind::peer_lost,
                "lost " + text_of({rank}) + " (its process ended)",
                {rank}};
        }
        return {};
    }

    bool is_time_to_ask() {
        const std::lock_guard lock(mutex_);
        const auto now = Clock::now();
        if (!watch_ || now < look_at_) return false;
        between_looks_ = std::min(between_looks_ * 2, longest_between_looks);
        look_at_ = now + between_looks_;
        return true;
    }

    void remember(Trouble trouble) {
        const std::lock_guard lock(mutex_);
        if (!trouble_) trouble_ = std::move(trouble);
    }

    /// `call` returns false when the trouble is known.
    template <class Call>
    int guarded(const Call& call) {
        try {
            if (call()) return 0;
        } catch (const Timeout& error) {
            remember({Trouble::Kind::timeout, error.what()});
        } catch (const std::exception& error) {
            remember({Trouble::Kind::peer_lost, error.what()});
        }
        const std::lock_guard lock(mutex_);
        return static_cast<int>(trouble_->kind);
    }

    Store store_;
    const std::string prefix_;
    const std::shared_ptr<MismatchWatch> watch_;
    const std::optional<Hosts> hosts_;
    const int rank_;
    const int world_size_;
    int own_seat_ = 0;
    std::optional<Peers> peers_;
    std::atomic<bool> is_given_up_here_ = false;

    std::mutex mutex_;  // guards what follows
    Clock::time_point until_;
    Clock::time_point look_at_ = Clock::now() + first_look_after;
    milliseconds between_looks_ = first_look_after;
    std::optional<Clock::time_point> gone_since_;
    std::optional<Trouble> trouble_;
};

Trouble told_by_plugin(const DdprunReport& report) {
    const std::string text(report.text);
    if (static_cast<Trouble::Kind>(report.kind) != Trouble::Kind::mismatch)
        return {static_cast<Trouble::Kind>(report.kind), text};
    const auto line = text.find('\n');
    return mismatch_between(text.substr(0, line), text.substr(std::min(line, text.size() - 1) + 1));
}

/// Memory of one GPU; does not care which group it was taken from.
class DeviceArena : public Arena {
public:
    DeviceArena(const DdprunDevicePlugin& plugin, int device) : plugin_(plugin), device_(device) {}

    void* take(std::size_t bytes) override { return plugin_.allocate(device_, bytes); }
    bool has_substitute() const override { return false; }
    void give_back(void* data, std::size_t) override { plugin_.give_back(device_, data); }

private:
    const DdprunDevicePlugin& plugin_;
    const int device_;
};

class NcclTransport : public Transport {
public:
    NcclTransport(
        const DdprunDevicePlugin& plugin,
        void* handle,
        int device,
        std::unique_ptr<Surroundings> surroundings)
        : plugin_(plugin),
          surroundings_(std::move(surroundings)),
          handle_(handle),
          device_(device),
          arena_(std::make_shared<DeviceArena>(plugin, device)),
          access_{plugin, handle, [this](const DdprunReport& report) {
                      return surroundings_->reason(told_by_plugin(report));
                  }} {}
    NcclTransport(const NcclTransport&) = delete;
    NcclTransport& operator=(const NcclTransport&) = delete;
    ~NcclTransport() override { plugin_.close(handle_); }

    Outcome follow(const Collective& collective) override {
        const auto call = device_call(collective, {});
        DdprunReport report{};
        if (plugin_.follow(handle_, &call, &report) == 0) return {};
        return surroundings_->reason(told_by_plugin(report));
    }

    std::variant<bool, Trouble> begin(const Collective& collective) override {
        const auto call = device_call(collective, {});
        DdprunReport report{};
        int begun = 0;
        if (plugin_.begin(handle_, &call, &begun, &report) == 0) return begun != 0;
        return surroundings_->reason(told_by_plugin(report));
    }

    Outcome run(const Collective& collective, milliseconds timeout) override {
        surroundings_->begin_call(timeout);
        const auto call = device_call(collective, timeout);
        const Waiting here{collective};
        waiting = &here;
        DdprunReport report{};
        const bool is_done = plugin_.run(handle_, &call, &report) == 0;
        waiting = nullptr;
        if (is_done) return {};
        return surroundings_->reason(told_by_plugin(report), collective, timeout);
    }

    bool is_for_any_thread() const override { return true; }
    int device() const override { return device_; }
    const DeviceAccess* device_access() const override { return &access_; }
    void abort() override {
        surroundings_->give_up();
        plugin_.abort(handle_);
    }
    bool is_broken() override { return plugin_.is_broken(handle_) != 0; }
    std::shared_ptr<Arena> arena() override { return arena_; }

private:
    const DdprunDevicePlugin& plugin_;
    const std::unique_ptr<Surroundings> surroundings_;
    void* const handle_;
    const int device_;
    const std::shared_ptr<Arena> arena_;
    const DeviceAccess access_;
};

}  // namespace

DdprunCollective device_call(const Collective& collective, milliseconds timeout) {
    DdprunCollective call{};
    call.kind = static_cast<std::uint32_t>(collective.kind);
    call.element_type = static_cast<std::uint32_t>(collective.type);
    call.op = static_cast<std::uint32_t>(collective.op);
    call.element_bytes = size_of(collective.type);
    call.root = collective.root;
    call.receiver = collective.receiver;
    call.input = collective.input;
    call.data = collective.data;
    call.count = collective.count;
    call.timeout_ms = timeout.count();
    call.stream = collective.stream;
    call.is_on_host = collective.is_on_host ? 1 : 0;
    return call;
}

std::variant<const DdprunDevicePlugin*, Trouble> load_nccl_plugin() {
    auto loaded = load_plugin_entry(nccl::plugin_name, nccl::plugin_entry_name);
    if (auto* trouble = std::get_if<Trouble>(&loaded)) return *trouble;
    const auto* plugin = reinterpret_cast<DdprunDevicePluginEntry>(std::get<void*>(loaded))();
    if (plugin->version != nccl::plugin_version) return of_another_version(nccl::plugin_name);
    DdprunReport report{};
    if (plugin->device_count(&report) == 0 && report.kind != 0) return told_by_plugin(report);
    return plugin;
}

std::variant<std::unique_ptr<Transport>, Trouble> open_nccl_transport(
    const DdprunDevicePlugin& plugin, NcclSettings settings) {
    const auto& world = settings.world;
    auto surroundings = std::make_unique<Surroundings>(settings);
    DdprunDeviceOpen open{};
    open.rank = world.rank;
    open.world_size = world.world_size;
    open.local_rank = world.local_rank;
    open.local_world_size = world.local_world_size;
    open.shares_device = ::getenv(environment::share_gpu) ? 1 : 0;
    open.timeout_ms = settings.timeout.count();
    open.abort_timeout_ms = longest_abort.count();
    open.store = surroundings->store();
    open.self = surroundings.get();
    open.is_given_up = &Surroundings::is_given_up;
    open.end_process = &Surroundings::end;
    if (settings.split) {
        open.part = settings.split->part;
        open.parent = settings.split->parent;
    }

    DdprunReport report{};
    int device = 0;
    if (void* const handle = plugin.open(&open, &device, &report))
        return std::make_unique<NcclTransport>(plugin, handle, device, std::move(surroundings));
    auto trouble = surroundings->reason(told_by_plugin(report));
    if (trouble.kind == Trouble::Kind::mismatch) {
        if (settings.watch) settings.watch->tell(trouble);
    } else if (trouble.kind != Trouble::Kind::usage) {
        trouble.text =
            text_of({world.rank}) + " could not meet its peers over NCCL: " + trouble.text;
    }
    return trouble;
}

}  // namespace ddprun::groups
