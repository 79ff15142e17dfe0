// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/plugin_abi.hpp"
#include "worker_sdk/src/groups/trouble.hpp"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

/// The cpu transport between processes: Gloo over TCP. The only file that sees Gloo's headers; it
/// becomes libddprun_gloo.so, opened so that its Gloo never meets another copy in the process
/// (PyTorch has one).
namespace {

using ddprun::groups::Collective;
using ddprun::groups::Trouble;
using Milliseconds = std::chrono::milliseconds;
using Algorithm = gloo::AllreduceOptions::Algorithm;

/// The store said no; the SDK's side knows why.
struct StoreFailed {
    int kind;
};

/// Gloo's rendezvous through the round's store.
class Rendezvous : public gloo::rendezvous::Store {
public:
    explicit Rendezvous(const DdprunStore& store) : store_(store) {}

    void set(const std::string& key, const std::vector<char>& data) override {
        if (const int kind = store_.set(store_.self, key.c_str(), data.data(), data.size()))
            throw StoreFailed{kind};
    }

    std::vector<char> get(const std::string& key) override {
        std::vector<char> value;
        const auto take = [](void* sink, const char* data, std::size_t bytes) {
            static_cast<std::vector<char>*>(sink)->assign(data, data + bytes);
        };
        if (const int kind = store_.get(store_.self, key.c_str(), &value, take))
            throw StoreFailed{kind};
        return value;
    }

    void wait(const std::vector<std::string>& keys) override {
        for (const auto& key : keys)
            get(key);
    }

    /// The base class would wait without a limit; the SDK's `get` has one of its own.
    void wait(const std::vector<std::string>& keys, const Milliseconds&) override { wait(keys); }

private:
    DdprunStore store_;
};

/// The sockets of this process, by descriptor. Empty without /proc.
std::set<int> open_sockets() {
    std::set<int> sockets;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
    if (!folder) return sockets;
    while (const auto* entry = ::readdir(folder.get())) {
        const int descriptor = ::atoi(entry->d_name);
        struct stat about {};
        if (::fstat(descriptor, &about) == 0 && S_ISSOCK(about.st_mode)) sockets.insert(descriptor);
    }
    return sockets;
}

/// Gloo's sockets would be inherited by programs that the worker starts, and while one of them
/// lives the peers would not see the worker's death. (A socket without the flag that another thread
/// opens in the same moment gets it too.)
void close_on_exec_all_but(const std::set<int>& sockets_before) {
    for (const int descriptor : open_sockets())
        if (sockets_before.count(descriptor) == 0) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

template <class T>
void add(void* sum, const void* a, const void* b, std::size_t count) {
    auto* into = static_cast<T*>(sum);
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    for (std::size_t i = 0; i < count; ++i)
        into[i] = left[i] + right[i];
}

class Gloo {
public:
    explicit Gloo(const DdprunOpen& settings) : rank_(settings.rank) {
        const auto sockets_before = open_sockets();
        const gloo::transport::tcp::attr where(settings.address);
        auto device = gloo::transport::tcp::CreateDevice(where);
        context_ = std::make_shared<gloo::rendezvous::Context>(settings.rank, settings.world_size);
        // Gloo allows five times this for each connection.
        context_->setTimeout(Milliseconds(std::max<std::int64_t>(settings.connect_timeout_ms, 1)));
        Rendezvous store(settings.store);
        context_->connectFullMesh(store, device);
        close_on_exec_all_but(sockets_before);
    }

    void run(const DdprunCollective& collective) {
        // Without elements there is nothing to send, but ranks that differ must still not pass.
        if (collective.count == 0) return barrier(collective);
        switch (static_cast<Collective::Kind>(collective.kind)) {
            case Collective::Kind::all_reduce: return all_reduce(collective);
            case Collective::Kind::broadcast: return broadcast(collective);
            case Collective::Kind::all_gather: return all_gather(collective);
            case Collective::Kind::barrier: return barrier(collective);
        }
    }

    /// Gloo closes all connections of a context when one wait on it runs out of time, and that
    /// wakes whoever waits on another thread; nothing else in its interface does.
    void abort() {
        try {
            char nothing = 0;
            auto buffer = context_->createUnboundBuffer(&nothing, sizeof nothing);
            buffer->waitRecv(Milliseconds(1));
        } catch (const std::exception&) {
        }
    }

    /// The peers whose connection is broken, with Gloo's words for it.
    std::string broken_connections() {
        std::string ranks;
        std::string words;
        for (int peer = 0; peer < context_->size; ++peer) {
            if (peer == rank_) continue;
            try {
                char nothing = 0;
                auto buffer = context_->createUnboundBuffer(&nothing, sizeof nothing);
                // Posted on a broken connection it throws; on a healthy one it is forgotten with
                // the buffer.
                buffer->recv(peer, 0, 0, sizeof nothing);
            } catch (const std::exception& error) {
                ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(peer);
                words = error.what();
            }
        }
        return ranks.empty() ? std::string{} : "lost " + ranks + " (" + without_place(words) + ")";
    }

    /// "[./gloo/transport/tcp/pair.cc:589] Read error ..." -> "Read error ..."
    static std::string without_place(const std::string& text) {
        const auto end = text.find("] ");
        const bool has_place = text.rfind('[', 0) == 0 && end != std::string::npos;
        auto words = has_place ? text.substr(end + 2) : text;
        while (!words.empty() && (words.back() == '\n' || words.back() == ' '))
            words.pop_back();
        return words;
    }

private:
    template <class Options>
    static void prepare(Options& options, const DdprunCollective& collective) {
        options.setTag(collective.tag);
        options.setTimeout(Milliseconds(collective.timeout_ms));
    }

    void all_reduce(const DdprunCollective& collective) {
        gloo::AllreduceOptions options(context_);
        prepare(options, collective);
        // Fixed: the order of the additions, and so every bit, depends on the world size alone.
        options.setAlgorithm(Algorithm::RING);
        switch (static_cast<ddprun::ElementType>(collective.element_type)) {
            case ddprun::ElementType::float32: set_type<float>(options, collective); break;
            case ddprun::ElementType::float64: set_type<double>(options, collective); break;
            case ddprun::ElementType::int64: set_type<std::int64_t>(options, collective); break;
            case ddprun::ElementType::byte: throw std::invalid_argument("bytes cannot be added");
        }
        gloo::allreduce(options);
    }

    template <class T>
    static void set_type(gloo::AllreduceOptions& options, const DdprunCollective& collective) {
        options.setOutput(static_cast<T*>(collective.data), collective.count);
        options.setReduceFunction(&add<T>);
    }

    void broadcast(const DdprunCollective& collective) {
        gloo::BroadcastOptions options(context_);
        prepare(options, collective);
        options.setRoot(collective.root);
        options.setOutput(
            static_cast<char*>(collective.data), collective.count * collective.element_bytes);
        gloo::broadcast(options);
    }

    void all_gather(const DdprunCollective& collective) {
        const auto bytes = collective.count * collective.element_bytes;
        auto* output = static_cast<char*>(collective.data);
        auto* mine = output + static_cast<std::size_t>(rank_) * bytes;
        if (mine != collective.input) ::memmove(mine, collective.input, bytes);
        gloo::AllgatherOptions options(context_);
        prepare(options, collective);
        options.setOutput(output, bytes * static_cast<std::size_t>(context_->size));
        gloo::allgather(options);
    }

    void barrier(const DdprunCollective& collective) {
        gloo::BarrierOptions options(context_);
        prepare(options, collective);
        gloo::barrier(options);
    }

    int rank_;
    std::shared_ptr<gloo::rendezvous::Context> context_;
};

void report_trouble(DdprunReport* report, Trouble::Kind kind, const std::string& text) {
    report->kind = static_cast<int>(kind);
    const auto length = std::min(text.size(), sizeof report->text - 1);
    ::memcpy(report->text, text.data(), length);
    report->text[length] = '\0';
}

bool is_timeout(const std::string& text) {
    return text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
}

void* open_gloo(const DdprunOpen* settings, DdprunReport* report) {
    try {
        return new Gloo(*settings);
    } catch (const StoreFailed& failed) {
        report_trouble(report, static_cast<Trouble::Kind>(failed.kind), "the store failed");
    } catch (const gloo::IoException& error) {
        const auto text = Gloo::without_place(error.what());
        report_trouble(
            report, is_timeout(text) ? Trouble::Kind::timeout : Trouble::Kind::peer_lost, text);
    } catch (const std::exception& error) {
        report_trouble(report, Trouble::Kind::other, Gloo::without_place(error.what()));
    }
    return nullptr;
}

int run_gloo(void* transport, const DdprunCollective* collective, DdprunReport* report) {
    auto& self = *static_cast<Gloo*>(transport);
    try {
        self.run(*collective);
        report->kind = 0;
    } catch (const gloo::IoException& error) {
        const auto text = Gloo::without_place(error.what());
        if (is_timeout(text)) {
            report_trouble(report, Trouble::Kind::timeout, text);
        } else {
            const auto broken = self.broken_connections();
            report_trouble(report, Trouble::Kind::peer_lost, broken.empty() ? text : broken);
        }
    } catch (const std::exception& error) {
        report_trouble(report, Trouble::Kind::other, Gloo::without_place(error.what()));
    }
    return report->kind;
}

void abort_gloo(void* transport) {
    static_cast<Gloo*>(transport)->abort();
}

void close_gloo(void* transport) {
    delete static_cast<Gloo*>(transport);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const DdprunPlugin* ddprun_transport_plugin() {
    static const DdprunPlugin plugin{
        ddprun::groups::plugin_version, open_gloo, run_gloo, abort_gloo, close_gloo};
    return &plugin;
}
