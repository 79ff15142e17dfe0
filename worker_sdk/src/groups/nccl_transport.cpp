// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/nccl_transport.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/groups/arena.hpp"
#include "worker_sdk/src/groups/device_access.hpp"
#include "worker_sdk/src/groups/plugin.hpp"
#include "worker_sdk/src/nccl/nccl_plugin_abi.hpp"
#include "worker_sdk/src/record/error_file.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// The wait of this thread: the plugin calls back during it.
struct Call {
    FailureMonitor::Wait wait;
    Clock::time_point until;
    bool is_seen = false;
};
thread_local Call* current_call = nullptr;

/// The process cannot continue; this text is all that reaches the launcher.
[[noreturn]] void end_process(const std::string& text) {
    const auto message = "PeerLost: " + text;
    std::fprintf(stderr, "ddprun: %s\n", message.c_str());
    record_errors::remember_path();
    record_errors::write_error_file({message.data(), message.size()}, {});
    ::_exit(1);
}

/// The plugin's view of the SDK: the store, and whether to continue waiting. The monitor keeps the
/// error, since the C ABI cannot carry it. Any thread.
class PluginHost {
public:
    explicit PluginHost(const NcclSettings& settings)
        : store_(settings.store),
          prefix_(settings.prefix),
          monitor_(settings.monitor),
          rank_(settings.world.rank),
          world_size_(settings.world.world_size),
          begun_at_(Clock::now()),
          until_(begun_at_ + settings.timeout) {}

    DdprunStore store() { return {this, &PluginHost::set, &PluginHost::get}; }

    static int is_given_up(void* self) {
        return static_cast<PluginHost*>(self)->has_failed() ? 1 : 0;
    }

    static void end(void*, const char* text) { end_process(text); }

    /// The explained error, else the plugin's. A lost peer is named where a source reports the name
    /// soon.
    GroupError reason(GroupError error) {
        return monitor_->explain({Queue::group, begun_at_, {}}, std::move(error));
    }

    /// ... of a call: of a timeout also which ranks did not come.
    GroupError reason(GroupError error, const Collective& collective, milliseconds timeout) {
        std::vector<int> others;
        const bool is_known =
            !collective.is_point_to_point() && timeout >= waiting_times::shortest_named_timeout;
        for (int rank = 0; is_known && rank < world_size_; ++rank)
            if (rank != rank_) others.push_back(rank);
        const FailureMonitor::Wait wait{queue_of(collective), Clock::now(), collective};
        return monitor_->explain(wait, std::move(error), std::move(others));
    }

    void note_abort() { monitor_->note_abort(); }
    void end_wait(const FailureMonitor::Wait& wait) { monitor_->end(wait); }

private:
    using Queue = FailureMonitor::Queue;

    static int set(void* self, const char* key, const char* data, std::size_t bytes) {
        auto& here = *static_cast<PluginHost*>(self);
        return here.guarded([&] { here.store_.set(here.prefix_ + key, {data, bytes}); });
    }

    static int get(
        void* self,
        const char* key,
        void* sink,
        void (*take)(void* sink, const char* data, std::size_t bytes)) {
        auto& here = *static_cast<PluginHost*>(self);
        return here.guarded([&] {
            const auto name = here.prefix_ + key;
            if (!here.await_key(name)) return;
            const auto value = here.store_.get(name, waiting_times::known_key_timeout);
            take(sink, value.data(), value.size());
        });
    }

    /// By polling: another thread of this rank may need the connection for the key that a peer
    /// waits for before it sets this rank's key. False: the group has failed.
    bool await_key(const std::string& name) {
        const auto until = current_call ? current_call->until : until_;
        for (auto nap = waiting_times::shortest_key_interval; !store_.check({name});
             nap = std::min(nap * 2, waiting_times::longest_key_interval)) {
            if (has_failed()) return false;
            if (Clock::now() >= until) throw Timeout("a peer did not come: there is no " + name);
            std::this_thread::sleep_for(nap);
        }
        return true;
    }

    bool has_failed() {
        if (!current_call) return monitor_->renew({Queue::group, begun_at_, {}}).has_value();
        current_call->is_seen = true;
        return monitor_->renew(current_call->wait).has_value();
    }

    /// The kind of the group's error, if it has failed.
    template <class Call>
    int guarded(const Call& call) {
        const auto queue = current_call ? current_call->wait.queue : Queue::group;
        try {
            call();
        } catch (const Timeout& thrown) {
            monitor_->decide(FailureDetector::KeyMissing{queue, thrown.what()});
        } catch (const std::exception& thrown) {
            monitor_->decide(FailureDetector::StoreLost{queue, thrown.what()});
        }
        const auto verdict = monitor_->verdict();
        return verdict ? static_cast<int>(verdict->kind) : 0;
    }

    Store store_;
    const std::string prefix_;
    const std::shared_ptr<FailureMonitor> monitor_;
    const int rank_;
    const int world_size_;
    const Clock::time_point begun_at_;
    const Clock::time_point until_;
};

GroupError told_by_plugin(const DdprunReport& report) {
    const std::string text(report.text);
    if (static_cast<GroupError::Kind>(report.kind) != GroupError::Kind::mismatch)
        return {static_cast<GroupError::Kind>(report.kind), text};
    const auto line = text.find('\n');
    return mismatch_between(text.substr(0, line), text.substr(std::min(line, text.size() - 1) + 1));
}

/// Memory of one GPU, independent of the group.
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
        std::unique_ptr<PluginHost> host)
        : plugin_(plugin),
          host_(std::move(host)),
          handle_(handle),
          device_(device),
          arena_(std::make_shared<DeviceArena>(plugin, device)),
          access_{plugin, handle, [this](const DdprunReport& report) {
                      return host_->reason(told_by_plugin(report));
                  }} {}
    NcclTransport(const NcclTransport&) = delete;
    NcclTransport& operator=(const NcclTransport&) = delete;
    ~NcclTransport() override { plugin_.close(handle_); }

    Outcome follow(const Collective& collective) override {
        const auto call = device_call(collective, {});
        DdprunReport report{};
        if (plugin_.follow(handle_, &call, &report) == 0) return {};
        return host_->reason(told_by_plugin(report));
    }

    std::variant<bool, GroupError> begin(const Collective& collective) override {
        const auto call = device_call(collective, {});
        DdprunReport report{};
        int begun = 0;
        if (plugin_.begin(handle_, &call, &begun, &report) == 0) return begun != 0;
        return host_->reason(told_by_plugin(report));
    }

    Outcome run(const Collective& collective, milliseconds timeout) override {
        const auto now = Clock::now();
        Call here{{queue_of(collective), now, collective}, now + timeout};
        const auto call = device_call(collective, timeout);
        current_call = &here;
        DdprunReport report{};
        const bool is_done = plugin_.run(handle_, &call, &report) == 0;
        current_call = nullptr;
        if (!is_done) return host_->reason(told_by_plugin(report), collective, timeout);
        if (here.is_seen) host_->end_wait(here.wait);
        return {};
    }

    bool is_for_any_thread() const override { return true; }
    int device() const override { return device_; }
    const DeviceAccess* device_access() const override { return &access_; }
    void abort() override {
        host_->note_abort();
        plugin_.abort(handle_);
    }
    bool is_broken() override { return plugin_.is_broken(handle_) != 0; }
    std::shared_ptr<Arena> arena() override { return arena_; }

private:
    const DdprunDevicePlugin& plugin_;
    const std::unique_ptr<PluginHost> host_;
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

std::variant<const DdprunDevicePlugin*, GroupError> load_nccl_plugin() {
    auto loaded = load_plugin_entry(nccl::plugin_name, nccl::plugin_entry_name);
    if (auto* error = std::get_if<GroupError>(&loaded)) return *error;
    const auto* plugin = reinterpret_cast<DdprunDevicePluginEntry>(std::get<void*>(loaded))();
    if (plugin->version != nccl::plugin_version) return of_another_version(nccl::plugin_name);
    DdprunReport report{};
    if (plugin->device_count(&report) == 0 && report.kind != 0) return told_by_plugin(report);
    return plugin;
}

std::variant<std::unique_ptr<Transport>, GroupError> open_nccl_transport(
    const DdprunDevicePlugin& plugin, NcclSettings settings) {
    const auto& world = settings.world;
    auto host = std::make_unique<PluginHost>(settings);
    DdprunDeviceOpen open{};
    open.rank = world.rank;
    open.world_size = world.world_size;
    open.local_rank = world.local_rank;
    open.local_world_size = world.local_world_size;
    open.shares_device = ::getenv(environment::share_gpu) ? 1 : 0;
    open.timeout_ms = settings.timeout.count();
    open.abort_timeout_ms = waiting_times::abort_timeout.count();
    open.store = host->store();
    open.self = host.get();
    open.is_given_up = &PluginHost::is_given_up;
    open.end_process = &PluginHost::end;
    if (settings.split) {
        open.part = settings.split->part;
        open.parent = settings.split->parent;
    }

    DdprunReport report{};
    int device = 0;
    if (void* const handle = plugin.open(&open, &device, &report))
        return std::make_unique<NcclTransport>(plugin, handle, device, std::move(host));
    auto error = host->reason(told_by_plugin(report));
    // All ranks report the same mismatch.
    if (error.kind != GroupError::Kind::mismatch && error.kind != GroupError::Kind::usage)
        error.text = text_of({world.rank}) + " could not meet its peers over NCCL: " + error.text;
    return error;
}

}  // namespace ddprun::groups
