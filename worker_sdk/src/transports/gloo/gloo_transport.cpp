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
#include <optional>
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
    Store store;
    std::string prefix;
    DeathReports deaths;
    std::chrono::steady_clock::time_point deadline;
    std::optional<GroupError> error;

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

    milliseconds time_left() const {
        const auto left = deadline - std::chrono::steady_clock::now();
        return std::max(duration_cast<milliseconds>(left), 1ms);
    }
};

int bridge_set(void* self, const char* key, const char* data, std::size_t bytes) {
    auto& bridge = *static_cast<StoreBridge*>(self);
    return bridge.guarded([&] { bridge.store.set(bridge.prefix + key, {data, bytes}); });
}

int bridge_get(
    void* self,
    const char* key,
    void* sink,
    void (*take)(void* sink, const char* data, std::size_t bytes)) {
    auto& bridge = *static_cast<StoreBridge*>(self);
    return bridge.guarded([&] {
        const auto value = bridge.deaths.await(bridge.store, bridge.prefix + key, bridge.deadline);
        take(sink, value.data(), value.size());
    });
}

GroupError error_from(const DdprunReport& report) {
    GroupError error{static_cast<GroupError::Kind>(report.kind), report.text};
    error.ranks.assign(report.ranks, report.ranks + report.rank_count);
    return error;
}

/// Whether this rank has a result of `collective`.
bool gets_result(const Collective& collective, int rank) {
    return collective.kind != Collective::Kind::reduce || collective.root == rank;
}

class GlooTransport : public Transport {
public:
    GlooTransport(const DdprunPlugin& plugin, void* handle, int rank, int world_size)
        : plugin_(plugin),
          handle_(handle),
          rank_(rank),
          world_size_(world_size) {}
    GlooTransport(const GlooTransport&) = delete;
    GlooTransport& operator=(const GlooTransport&) = delete;
    ~GlooTransport() override { plugin_.close(handle_); }

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
        call.timeout_ms = timeout.count();
        DdprunReport report{};
        if (plugin_.run(handle_, &call, &report) != 0) return error_from(report);
        if (collective.is_reduction() && collective.op == Op::average &&
            gets_result(collective, rank_))
            divide(collective.data, collective.count, collective.type, world_size_);
        return {};
    }

    void abort() override { plugin_.abort(handle_); }
    bool is_broken() override { return plugin_.is_broken(handle_) != 0; }

private:
    const DdprunPlugin& plugin_;
    void* handle_;
    int rank_;
    int world_size_;
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
    StoreBridge bridge{settings.store, settings.prefix, settings.deaths, settings.deadline, {}};
    DdprunOpen open{};
    open.rank = settings.rank;
    open.world_size = settings.world_size;
    open.address = settings.address.c_str();
    // Gloo multiplies this timeout by five.
    open.connect_timeout_ms =
        (std::min(waiting_times::gloo_connect_timeout, bridge.time_left()) / 5).count() + 1;
    open.store = {&bridge, bridge_set, bridge_get};

    DdprunReport report{};
    if (void* handle = plugin.open(&open, &report))
        return std::make_unique<GlooTransport>(plugin, handle, settings.rank, settings.world_size);
    auto error = bridge.error ? *bridge.error : error_from(report);
    error.text = "rank " + std::to_string(settings.rank) + " at " + settings.address +
                 " could not connect to its peers: " + error.text;
    return error;
}

}  // namespace ddprun::groups
