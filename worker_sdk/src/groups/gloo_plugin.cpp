// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/collective.hpp"
#include "worker_sdk/src/groups/plugin_abi.hpp"
#include "worker_sdk/src/groups/trouble.hpp"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// The cpu transport between processes: Gloo over TCP. The only file that sees Gloo's headers; it
/// becomes libddprun_gloo.so, opened so that its Gloo never meets another copy in the process
/// (PyTorch has one).
namespace {

using ddprun::groups::Trouble;
using Kind = ddprun::groups::Collective::Kind;
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

/// Descriptors of sockets, and which sockets they are (inode).
using Sockets = std::map<int, ino_t>;

/// Those of this process. Empty without /proc.
Sockets open_sockets() {
    Sockets sockets;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
    if (!folder) return sockets;
    while (const auto* entry = ::readdir(folder.get())) {
        const int descriptor = ::atoi(entry->d_name);
        struct stat about {};
        if (::fstat(descriptor, &about) == 0 && S_ISSOCK(about.st_mode))
            sockets[descriptor] = about.st_ino;
    }
    return sockets;
}

bool is_connected_tcp(int descriptor) {
    int type = 0;
    socklen_t size = sizeof type;
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    return ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
           type == SOCK_STREAM &&
           ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

/// Gloo's sockets would be inherited by programs that the worker starts, and while one of them
/// lives the peers would not see the worker's death. Returns them: all that came since `before`.
Sockets close_on_exec_all_but(const Sockets& before) {
    Sockets ours;
    for (const auto& [descriptor, inode] : open_sockets()) {
        const auto known = before.find(descriptor);
        if (known != before.end() && known->second == inode) continue;
        const int flags = ::fcntl(descriptor, F_GETFD);
        // Whoever opens sockets closed on exec in another thread of this moment is not Gloo.
        if (!is_connected_tcp(descriptor) || flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
        ::fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
        ours[descriptor] = inode;
    }
    return ours;
}

/// A buffer whose waits can be ended from another thread. Gloo forgets to wake those whose message
/// was half sent or half received when the connection broke; they would sit out their timeout.
class AbortableBuffer : public gloo::transport::UnboundBuffer {
public:
    using Live = std::set<AbortableBuffer*>;

    AbortableBuffer(
        std::unique_ptr<gloo::transport::UnboundBuffer> inner, std::mutex& mutex, Live& live)
        : UnboundBuffer(inner->ptr, inner->size),
          inner_(std::move(inner)),
          mutex_(mutex),
          live_(live) {
        const std::lock_guard lock(mutex_);
        live_.insert(this);
    }
    ~AbortableBuffer() override {
        const std::lock_guard lock(mutex_);
        live_.erase(this);
    }

    bool waitRecv(int* rank, Milliseconds timeout) override {
        return inner_->waitRecv(rank, timeout) || aborted();
    }
    bool waitSend(int* rank, Milliseconds timeout) override {
        return inner_->waitSend(rank, timeout) || aborted();
    }
    void abortWaitRecv() override { inner_->abortWaitRecv(); }
    void abortWaitSend() override { inner_->abortWaitSend(); }
    void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
        inner_->send(to, slot, offset, bytes);
    }
    void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
        inner_->recv(from, slot, offset, bytes);
    }
    void recv(
        std::vector<int> from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
        inner_->recv(std::move(from), slot, offset, bytes);
    }

private:
    [[noreturn]] static bool aborted() { throw gloo::IoException("aborted"); }

    std::unique_ptr<gloo::transport::UnboundBuffer> inner_;
    std::mutex& mutex_;
    Live& live_;
};

/// Gloo's transport with abortable buffers; everything else is the real one's.
class AbortableTransport : public gloo::transport::Context {
public:
    explicit AbortableTransport(std::shared_ptr<gloo::transport::Context> inner)
        : Context(inner->rank, inner->size),
          inner_(std::move(inner)) {
        setTimeout(inner_->getTimeout());
    }

    gloo::transport::Context& inner() { return *inner_; }

    std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override {
        return inner_->getPair(peer);
    }
    std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
        return inner_->createPair(peer);
    }
    std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(
        void* data, std::size_t bytes) override {
        auto buffer = std::make_unique<AbortableBuffer>(
            inner_->createUnboundBuffer(data, bytes), buffers_mutex_, buffers_);
        const std::lock_guard lock(buffers_mutex_);
        if (is_aborted_) wake(*buffer);
        return buffer;
    }

    void wake_all() {
        const std::lock_guard lock(buffers_mutex_);
        is_aborted_ = true;
        for (auto* buffer : buffers_)
            wake(*buffer);
    }

private:
    static void wake(AbortableBuffer& buffer) {
        buffer.abortWaitRecv();
        buffer.abortWaitSend();
    }

    std::shared_ptr<gloo::transport::Context> inner_;
    std::mutex buffers_mutex_;
    AbortableBuffer::Live buffers_;
    bool is_aborted_ = false;
};

class AbortableContext : public gloo::rendezvous::Context {
public:
    using Context::Context;

    /// Requires: connected.
    std::shared_ptr<AbortableTransport> make_abortable() {
        auto transport = std::make_shared<AbortableTransport>(transportContext_);
        transportContext_ = transport;
        return transport;
    }
};

/// Peers whose connection is broken; none, with an empty text.
struct Lost {
    std::vector<int> ranks;
    std::string text;
};

class Gloo {
public:
    explicit Gloo(const DdprunOpen& settings) : rank_(settings.rank) {
        const auto sockets_before = open_sockets();
        const gloo::transport::tcp::attr where(settings.address);
        auto device = gloo::transport::tcp::CreateDevice(where);
        context_ = std::make_shared<AbortableContext>(settings.rank, settings.world_size);
        // Gloo allows five times this for each connection.
        context_->setTimeout(Milliseconds(std::max<std::int64_t>(settings.connect_timeout_ms, 1)));
        Rendezvous store(settings.store);
        context_->connectFullMesh(store, device);
        transport_ = context_->make_abortable();
        sockets_ = close_on_exec_all_but(sockets_before);
    }

    void run(const DdprunCollective& collective) {
        const auto kind = static_cast<Kind>(collective.kind);
        const bool is_message = kind == Kind::send || kind == Kind::recv;
        // Without elements there is nothing to send, but ranks that differ must still not pass.
        if (collective.count == 0 && !is_message) return barrier(collective);
        switch (kind) {
            case Kind::all_reduce: return all_reduce(collective, collective.data);
            case Kind::reduce: return reduce(collective);
            case Kind::broadcast: return broadcast(collective);
            case Kind::all_gather: return all_gather(collective);
            case Kind::reduce_scatter: return reduce_scatter(collective);
            case Kind::gather: return gather(collective);
            case Kind::scatter: return scatter(collective);
            case Kind::all_to_all: return all_to_all(collective);
            case Kind::barrier: return barrier(collective);
            case Kind::send:
            case Kind::recv: return move(collective);
        }
    }

    /// Gloo closes all connections of a context when one wait on it runs out of time; nothing else
    /// in its interface does so and wakes whoever waits.
    void abort() {
        {
            const std::lock_guard lock(abort_mutex_);
            // Before we break the rest.
            if (!aborted_) aborted_ = broken_connections();
        }
        try {
            char nothing = 0;
            auto buffer = transport_->inner().createUnboundBuffer(&nothing, sizeof nothing);
            buffer->waitRecv(Milliseconds(1));
        } catch (const std::exception&) {
        }
        transport_->wake_all();
    }

    /// Which connections were broken when `abort` was first called; nothing before.
    std::optional<Lost> aborted() {
        const std::lock_guard lock(abort_mutex_);
        return aborted_;
    }

    /// Gloo closes the socket of a connection that broke; its number may be somebody else's by now.
    bool is_broken() const {
        return std::any_of(sockets_.begin(), sockets_.end(), [](const auto& socket) {
            struct stat about {};
            return ::fstat(socket.first, &about) != 0 || about.st_ino != socket.second;
        });
    }

    /// The peers whose connection is broken, with Gloo's words for it.
    Lost broken_connections() {
        Lost lost;
        std::string words;
        for (int peer = 0; peer < context_->size; ++peer) {
            if (peer == rank_) continue;
            try {
                char nothing = 0;
                auto buffer = transport_->inner().createUnboundBuffer(&nothing, sizeof nothing);
                // Posted on a broken connection it throws; on a healthy one it is forgotten with
                // the buffer.
                buffer->recv(peer, 0, 0, sizeof nothing);
            } catch (const std::exception& error) {
                lost.ranks.push_back(peer);
                words = error.what();
            }
        }
        if (!lost.ranks.empty())
            lost.text =
                "lost " + ddprun::groups::text_of(lost.ranks) + " (" + without_place(words) + ")";
        return lost;
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

    static gloo::AllreduceOptions::Func combine_of(const DdprunCollective& collective) {
        return ddprun::groups::combiner(
            static_cast<ddprun::ElementType>(collective.element_type),
            static_cast<ddprun::Op>(collective.op));
    }

    static std::size_t bytes_of(const DdprunCollective& collective) {
        return collective.count * collective.element_bytes;
    }

    std::size_t bytes_of_all(const DdprunCollective& collective) const {
        return bytes_of(collective) * static_cast<std::size_t>(context_->size);
    }

    /// This rank's part of a buffer that has one for each.
    char* own_part(const DdprunCollective& collective, void* all) const {
        return static_cast<char*>(all) + bytes_of(collective) * static_cast<std::size_t>(rank_);
    }

    static void copy(void* to, const void* from, std::size_t bytes) {
        if (to != from) ::memmove(to, from, bytes);
    }

    /// Calls `call` with an element as large as the collective's: Gloo cares about nothing else.
    template <class Call>
    static void with_element(const DdprunCollective& collective, Call call) {
        switch (collective.element_bytes) {
            case 1: return call(std::uint8_t{});
            case 2: return call(std::uint16_t{});
            case 4: return call(std::uint32_t{});
            default: return call(std::uint64_t{});
        }
    }

    void all_reduce(const DdprunCollective& collective, void* data) {
        gloo::AllreduceOptions options(context_);
        prepare(options, collective);
        // Fixed: the order of the additions, and so every bit, depends on the world size alone.
        options.setAlgorithm(Algorithm::RING);
        options.setReduceFunction(combine_of(collective));
        with_element(collective, [&](auto element) {
            options.setOutput(static_cast<decltype(element)*>(data), collective.count);
        });
        gloo::allreduce(options);
    }

    void reduce(const DdprunCollective& collective) {
        std::vector<char> result(bytes_of(collective));  // Gloo needs it on all ranks
        gloo::ReduceOptions options(context_);
        prepare(options, collective);
        options.setRoot(collective.root);
        options.setReduceFunction(combine_of(collective));
        with_element(collective, [&](auto element) {
            using Element = decltype(element);
            options.setInput(static_cast<Element*>(collective.data), collective.count);
            options.setOutput(reinterpret_cast<Element*>(result.data()), collective.count);
        });
        gloo::reduce(options);
        if (rank_ == collective.root) ::memcpy(collective.data, result.data(), result.size());
    }

    void broadcast(const DdprunCollective& collective) {
        gloo::BroadcastOptions options(context_);
        prepare(options, collective);
        options.setRoot(collective.root);
        options.setOutput(static_cast<char*>(collective.data), bytes_of(collective));
        gloo::broadcast(options);
    }

    void all_gather(const DdprunCollective& collective) {
        copy(own_part(collective, collective.data), collective.input, bytes_of(collective));
        gloo::AllgatherOptions options(context_);
        prepare(options, collective);
        options.setOutput(static_cast<char*>(collective.data), bytes_of_all(collective));
        gloo::allgather(options);
    }

    /// Gloo has none of this kind: everybody gets all, and takes its part.
    void reduce_scatter(const DdprunCollective& collective) {
        std::vector<char> all(bytes_of_all(collective));
        ::memcpy(all.data(), collective.input, all.size());
        auto whole = collective;
        whole.count *= static_cast<std::size_t>(context_->size);
        all_reduce(whole, all.data());
        ::memcpy(collective.data, own_part(collective, all.data()), bytes_of(collective));
    }

    void gather(const DdprunCollective& collective) {
        std::vector<char> input(bytes_of(collective));
        ::memcpy(input.data(), collective.input, input.size());
        gloo::GatherOptions options(context_);
        prepare(options, collective);
        options.setRoot(collective.root);
        options.setInput(input.data(), input.size());
        if (rank_ == collective.root)
            options.setOutput(static_cast<char*>(collective.data), bytes_of_all(collective));
        gloo::gather(options);
    }

    void scatter(const DdprunCollective& collective) {
        std::vector<char> input;
        std::vector<char*> parts;
        if (rank_ == collective.root) {
            input.resize(bytes_of_all(collective));
            ::memcpy(input.data(), collective.input, input.size());
            for (int peer = 0; peer < context_->size; ++peer)
                parts.push_back(
                    input.data() + bytes_of(collective) * static_cast<std::size_t>(peer));
        }
        gloo::ScatterOptions options(context_);
        prepare(options, collective);
        options.setRoot(collective.root);
        if (rank_ == collective.root) options.setInputs(parts, bytes_of(collective));
        options.setOutput(static_cast<char*>(collective.data), bytes_of(collective));
        gloo::scatter(options);
    }

    void all_to_all(const DdprunCollective& collective) {
        std::vector<char> input(bytes_of_all(collective));
        ::memcpy(input.data(), collective.input, input.size());
        gloo::AlltoallOptions options(context_);
        prepare(options, collective);
        options.setInput(input.data(), input.size());
        options.setOutput(static_cast<char*>(collective.data), input.size());
        gloo::alltoall(options);
    }

    /// One message. An empty one still has a byte, or it would not wait for its other end.
    void move(const DdprunCollective& collective) {
        constexpr std::uint8_t own_prefix = 0x70;
        const auto slot = gloo::Slot::build(own_prefix, collective.tag);
        const Milliseconds timeout(collective.timeout_ms);
        std::vector<char> bytes(std::max<std::size_t>(bytes_of(collective), 1));
        auto buffer = transport_->createUnboundBuffer(bytes.data(), bytes.size());
        if (static_cast<Kind>(collective.kind) == Kind::send) {
            if (collective.count > 0)
                ::memcpy(bytes.data(), collective.input, bytes_of(collective));
            buffer->send(collective.receiver, slot, 0, bytes.size());
            buffer->waitSend(timeout);
        } else {
            buffer->recv(collective.root, slot, 0, bytes.size());
            buffer->waitRecv(timeout);
            if (collective.count > 0) ::memcpy(collective.data, bytes.data(), bytes_of(collective));
        }
    }

    void barrier(const DdprunCollective& collective) {
        gloo::BarrierOptions options(context_);
        prepare(options, collective);
        gloo::barrier(options);
    }

    int rank_;
    std::shared_ptr<AbortableContext> context_;
    std::shared_ptr<AbortableTransport> transport_;
    Sockets sockets_;
    std::mutex abort_mutex_;
    std::optional<Lost> aborted_;
};

void report_trouble(DdprunReport* report, Trouble::Kind kind, const std::string& text) {
    report->kind = static_cast<int>(kind);
    const auto length = std::min(text.size(), sizeof report->text - 1);
    ::memcpy(report->text, text.data(), length);
    report->text[length] = '\0';
}

void report_loss(DdprunReport* report, const Lost& lost, const std::string& otherwise) {
    report_trouble(report, Trouble::Kind::peer_lost, lost.ranks.empty() ? otherwise : lost.text);
    report->rank_count =
        static_cast<std::int32_t>(std::min(lost.ranks.size(), std::size(report->ranks)));
    std::copy_n(lost.ranks.begin(), report->rank_count, report->ranks);
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
        if (const auto aborted = self.aborted()) {
            report_loss(report, *aborted, "aborted");
        } else if (is_timeout(text)) {
            report_trouble(report, Trouble::Kind::timeout, text);
        } else {
            report_loss(report, self.broken_connections(), text);
        }
    } catch (const std::exception& error) {
        report_trouble(report, Trouble::Kind::other, Gloo::without_place(error.what()));
    }
    return report->kind;
}

void abort_gloo(void* transport) {
    static_cast<Gloo*>(transport)->abort();
}

int is_gloo_broken(void* transport) {
    return static_cast<Gloo*>(transport)->is_broken() ? 1 : 0;
}

void close_gloo(void* transport) {
    delete static_cast<Gloo*>(transport);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const DdprunPlugin* ddprun_transport_plugin() {
    static const DdprunPlugin plugin{
        ddprun::groups::plugin_version,
        open_gloo,
        run_gloo,
        abort_gloo,
        is_gloo_broken,
        close_gloo};
    return &plugin;
}
