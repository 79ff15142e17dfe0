// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/gloo/gloo_transport.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/environment_names.hpp"
#include "worker_sdk/src/sanitizers.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <climits>

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::groups {

namespace {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

/// DEEPBIND: the plugin's symbols take precedence, so that its Gloo calls itself and not the one in
/// libtorch. Sanitizers replace malloc and refuse the flag.
constexpr int open_flags = RTLD_NOW | RTLD_LOCAL | (is_sanitized ? 0 : RTLD_DEEPBIND);

std::string folder_of_program() {
    std::vector<char> path(PATH_MAX);
    const auto size = ::readlink("/proc/self/exe", path.data(), path.size());
    if (size <= 0) return {};
    const std::string program(path.data(), static_cast<std::size_t>(size));
    return program.substr(0, program.rfind('/'));
}

/// Paths to try in order; the last is a bare name, for the dynamic linker's own search.
std::vector<std::string> candidates(const std::string& name) {
    std::vector<std::string> paths;
    if (const char* folder = ::getenv(environment::plugin_dir); folder && *folder)
        paths.push_back(std::string{folder} + "/" + name);
    if (const auto folder = folder_of_program(); !folder.empty()) {
        paths.push_back(folder + "/" + name);
        paths.push_back(folder + "/../lib/" + name);
    }
    paths.push_back(name);
    return paths;
}

/// Keeps the store's exception while C code is on the call stack.
struct StoreBridge {
    const GlooSettings& settings;
    Store store;
    const std::atomic<bool>& is_aborted;
    std::optional<GroupError> error{};

    template <class Call>
    int guarded(Call call) {
        try {
            call();
            return 0;
        } catch (const Timeout& thrown) {
            error = GroupError{GroupError::Kind::timeout, thrown.what()};
        } catch (const PeerLost& thrown) {
            error = GroupError{GroupError::Kind::peer_lost, thrown.what(), thrown.ranks()};
        } catch (const std::exception& thrown) {
            error = GroupError{GroupError::Kind::peer_lost, thrown.what()};
        }
        return static_cast<int>(error->kind);
    }

    std::string await(const std::string& key) {
        return settings.deaths.await(store, settings.prefix + key, settings.deadline, [this] {
            if (is_aborted) throw PeerLost("aborted");
        });
    }
};

int bridge_set(void* self, const char* key, const char* data, std::size_t bytes) {
    auto& bridge = *static_cast<StoreBridge*>(self);
    return bridge.guarded([&] { bridge.store.set(bridge.settings.prefix + key, {data, bytes}); });
}

int bridge_get(
    void* self,
    const char* key,
    void* sink,
    void (*take)(void* sink, const char* data, std::size_t bytes)) {
    auto& bridge = *static_cast<StoreBridge*>(self);
    return bridge.guarded([&] {
        const auto value = bridge.await(key);
        take(sink, value.data(), value.size());
    });
}

GroupError error_from(const DdprunReport& report) {
    GroupError error{static_cast<GroupError::Kind>(report.kind), report.text};
    error.ranks.assign(report.ranks, report.ranks + report.rank_count);
    return error;
}

/// This rank's number among them.
int place_of(const GlooSettings& settings) {
    const auto& ranks = settings.ranks;
    return static_cast<int>(
        std::find(ranks.begin(), ranks.end(), settings.own_rank) - ranks.begin());
}

/// Whether this rank has a result of `collective`.
bool gets_result(const Collective& collective, int rank) {
    return collective.kind != Collective::Kind::reduce || collective.root == rank;
}

class GlooTransport : public Transport {
public:
    GlooTransport(const DdprunPlugin& plugin, void* handle, GlooSettings settings)
        : plugin_(plugin),
          handle_(handle),
          settings_(std::move(settings)) {}
    GlooTransport(const GlooTransport&) = delete;
    GlooTransport& operator=(const GlooTransport&) = delete;
    ~GlooTransport() override { plugin_.close(handle_); }

    Outcome connect() override {
        StoreBridge bridge{settings_, settings_.store, is_aborted_};
        const DdprunStore store{&bridge, bridge_set, bridge_get};
        DdprunReport report{};
        if (plugin_.connect(handle_, &store, &report) == 0) return {};
        auto error = bridge.error ? *bridge.error : named(error_from(report));
        if (error.kind != GroupError::Kind::peer_lost || error.ranks.empty())
            error.text = text_of({settings_.own_rank}) + " at " + settings_.address +
                         " could not connect to its peers: " + error.text;
        return error;
    }

    Outcome run(const Collective& collective, milliseconds timeout) override {
        DdprunCollective call{};
        call.kind = static_cast<std::uint32_t>(collective.kind);
        call.element_type = static_cast<std::uint32_t>(collective.type);
        call.element_bytes = size_of(collective.type);
        call.op = static_cast<std::uint32_t>(collective.op);
        call.root = collective.root;
        call.receiver = collective.receiver;
        call.tag = collective.tag != 0 ? collective.tag : tag_of(collective);
        call.input = collective.input;
        call.data = collective.data;
        call.count = collective.count;
        if (collective.counts) {
            call.sent_counts = collective.counts->sent.data();
            call.received_counts = collective.counts->received.data();
        }
        call.timeout_ms = timeout.count();
        DdprunReport report{};
        if (plugin_.run(handle_, &call, &report) != 0) return named(error_from(report));
        const auto size = static_cast<int>(settings_.ranks.size());
        if (collective.is_reduction() && collective.op == Op::average &&
            gets_result(collective, place_of(settings_)))
            divide(collective.data, collective.count, collective.type, size);
        return {};
    }

    void abort() override {
        is_aborted_ = true;
        plugin_.abort(handle_);
    }
    bool is_broken() override { return plugin_.is_broken(handle_) != 0; }

private:
    /// With the group's ranks in place of the plugin's.
    GroupError named(GroupError error) const {
        if (error.ranks.empty()) return error;
        for (auto& rank : error.ranks)
            rank = settings_.ranks[static_cast<std::size_t>(rank)];
        error.text = "lost " + text_of(error.ranks);
        return error;
    }

    const DdprunPlugin& plugin_;
    void* handle_;
    const GlooSettings settings_;
    std::atomic<bool> is_aborted_ = false;
};

}  // namespace

std::variant<const DdprunPlugin*, GroupError> load_gloo_plugin() {
    const std::string name = "libddprun_gloo.so";
    std::string tried;
    for (const auto& path : candidates(name)) {
        void* library = ::dlopen(path.c_str(), open_flags);
        if (!library) {
            const char* reason = ::dlerror();
            tried += std::string{"\n  "} + (reason ? reason : path.c_str());
            continue;
        }
        void* const entry = ::dlsym(library, plugin_entry_name);
        if (!entry) {
            tried += "\n  " + path + ": not a plugin of ddprun";
            continue;
        }
        const auto* plugin = reinterpret_cast<DdprunPluginEntry>(entry)();
        if (plugin->version == plugin_version) return plugin;
        return GroupError{GroupError::Kind::usage, name + " belongs to another version of ddprun"};
    }
    return GroupError{GroupError::Kind::usage, name + " cannot be opened; tried:" + tried};
}

std::variant<std::unique_ptr<Transport>, GroupError> open_gloo_transport(
    const DdprunPlugin& plugin, GlooSettings settings) {
    const auto left =
        duration_cast<milliseconds>(settings.deadline - std::chrono::steady_clock::now());
    DdprunOpen open{};
    open.rank = place_of(settings);
    open.world_size = static_cast<int>(settings.ranks.size());
    open.address = settings.address.c_str();
    // Gloo multiplies this timeout by five.
    open.connect_timeout_ms =
        (std::clamp(left, milliseconds(1), waiting_times::gloo_connect_timeout) / 5).count() + 1;
    DdprunReport report{};
    if (void* handle = plugin.open(&open, &report))
        return std::make_unique<GlooTransport>(plugin, handle, std::move(settings));
    auto error = error_from(report);
    error.text =
        text_of({settings.own_rank}) + " cannot listen at " + settings.address + ": " + error.text;
    return error;
}

}  // namespace ddprun::groups
