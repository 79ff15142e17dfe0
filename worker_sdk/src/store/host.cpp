// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/store/host.hpp"

#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/ids.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/signal_masked_thread.hpp"
#include "rendezvous/base/start_failure.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/wire/decoder.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun::store_access {
namespace {

using namespace std::chrono_literals;

int listen_on(const addrinfo& address, bool is_dual) {
    const int type = address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
    const int descriptor = ::socket(address.ai_family, type, 0);
    if (descriptor < 0) return -1;
    const int yes = 1;
    const int only_v6 = is_dual ? 0 : 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address.ai_family == AF_INET6)
        ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
    if (::bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 &&
        ::listen(descriptor, SOMAXCONN) == 0)
        return descriptor;
    const int error = errno;
    ::close(descriptor);
    errno = error;
    return -1;
}

Result<int> open_listener(const std::string& host, std::uint16_t port) {
    // If the kernel has no IPv6, the dual-stack wildcard fails and IPv4's is tried next.
    const std::vector<std::string> hosts =
        host.empty() ? std::vector<std::string>{"::", "0.0.0.0"} : std::vector<std::string>{host};
    int error = EADDRNOTAVAIL;
    for (const auto& one : hosts) {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
        addrinfo* found = nullptr;
        if (::getaddrinfo(one.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) continue;
        const int descriptor = listen_on(*found, host.empty());
        error = errno;
        ::freeaddrinfo(found);
        if (descriptor >= 0) return descriptor;
        if (error == EADDRINUSE) break;
    }
    return Failure{system_code(error), "listen on port " + std::to_string(port)};
}

std::uint16_t port_of(int listener) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(
        address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                      : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

int milliseconds_until(std::optional<Instant> moment, Instant now) {
    if (!moment) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*moment - now);
    return static_cast<int>(std::clamp(left, 0ms, waiting_times::longest_store_poll).count());
}

}  // namespace

/// The state of the thread.
class StoreHost::Loop {
public:
    explicit Loop(StoreHost& host) : host_(host) {}

    void run() {
        while (!is_over()) {
            const auto now = Clock::now();
            prepare();
            const int ready =
                ::poll(waits_.data(), waits_.size(), milliseconds_until(wake_at(), now));
            if (ready < 0 && errno != EINTR) break;
            now_ = Clock::now();
            if (ready > 0) handle_ready();
            if (const auto due = machine_.next_deadline(); due && *due <= now_)
                handle(store::Store::DeadlinePassed{});
            close_silent();
        }
        for (auto& [id, client] : clients_)
            ::close(client.descriptor);
    }

private:
    struct Client {
        int descriptor = -1;
        wire::Decoder decoder;
        std::string out;
        std::size_t written = 0;
        Instant greet_by;
        bool is_ending = false;

        std::size_t backlog() const { return out.size() - written; }
        bool is_readable() const {
            return !is_ending && backlog() <= limits::max_store_backlog_bytes;
        }
    };

    /// The first two sockets are not clients.
    static constexpr std::size_t first_client = 2;

    bool is_over() {
        if (!host_.is_stopping_) return false;
        if (host_.closes_at_once_ || clients_.empty()) return true;
        if (!linger_until_) linger_until_ = Clock::now() + waiting_times::store_linger;
        return Clock::now() >= *linger_until_;
    }

    std::optional<Instant> wake_at() const {
        auto next = earliest(machine_.next_deadline(), linger_until_);
        next = earliest(next, accept_again_at_);
        for (const auto& [id, client] : clients_)
            if (!client.decoder.has_greeted()) next = earliest(next, client.greet_by);
        return next;
    }

    void prepare() {
        if (accept_again_at_ && *accept_again_at_ <= Clock::now()) accept_again_at_.reset();
        const bool is_accepting = !host_.is_stopping_ && !accept_again_at_;
        waits_ = {{host_.wake_, POLLIN, 0}, {is_accepting ? host_.listener_ : -1, POLLIN, 0}};
        ids_.clear();
        for (const auto& [id, client] : clients_) {
            const int events =
                (client.is_readable() ? POLLIN : 0) | (client.backlog() > 0 ? POLLOUT : 0);
            waits_.push_back({client.descriptor, static_cast<short>(events), 0});
            ids_.push_back(id);
        }
    }

    void handle_ready() {
        if (waits_[0].revents != 0) {
            std::uint64_t count = 0;
            [[maybe_unused]] const auto size = ::read(host_.wake_, &count, sizeof count);
        }
        if (waits_[1].revents != 0) accept_all();
        for (std::size_t i = 0; i < ids_.size(); ++i) {
            const auto events = waits_[first_client + i].revents;
            if ((events & POLLOUT) != 0) flush(ids_[i]);
            if ((events & (POLLIN | POLLERR | POLLHUP)) != 0) receive(ids_[i]);
        }
    }

    void accept_all() {
        for (;;) {
            const int descriptor =
                ::accept4(host_.listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (descriptor < 0) {
                if (errno == EINTR || errno == ECONNABORTED) continue;
                if (errno != EAGAIN) accept_again_at_ = now_ + waiting_times::accept_pause;
                return;
            }
            const int yes = 1;
            ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
            auto& client = clients_[next_id_++];
            client.descriptor = descriptor;
            client.greet_by = now_ + limits::handshake_timeout;
        }
    }

    void receive(std::uint64_t id) {
        const auto found = clients_.find(id);
        if (found == clients_.end()) return;
        const auto size = ::recv(found->second.descriptor, chunk_.data(), chunk_.size(), 0);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (size <= 0) return close(id);
        found->second.decoder.append({chunk_.data(), static_cast<std::size_t>(size)});
        handle_requests(id);
    }

    void handle_requests(std::uint64_t id) {
        for (auto found = clients_.find(id); found != clients_.end() && found->second.is_readable();
             found = clients_.find(id)) {
            store::Store::Received received{ConnectionId{id}, {}};
            const auto has_request = found->second.decoder.next(received.request);
            if (!has_request) return close(id);
            if (!*has_request) return;
            handle(std::move(received));
        }
    }

    void handle(store::Store::Event event) {
        std::vector<store::Store::Effect> effects;
        machine_.handle(std::move(event), now_, effects);
        for (auto& effect : effects)
            std::visit(
                Overloaded{
                    [&](const store::Store::Reply& it) { reply(it); },
                    [&](const store::Store::CloseConnection& it) { end(it.connection.value); }},
                effect);
    }

    void reply(const store::Store::Reply& it) {
        const auto found = clients_.find(it.to.value);
        if (found == clients_.end() || found->second.is_ending) return;
        wire::encode(it.reply, found->second.out);
        flush(it.to.value);
    }

    /// Closes after the output is sent.
    void end(std::uint64_t id) {
        const auto found = clients_.find(id);
        if (found == clients_.end()) return;
        found->second.is_ending = true;
        flush(id);
    }

    void flush(std::uint64_t id) {
        const auto found = clients_.find(id);
        if (found == clients_.end()) return;
        auto& client = found->second;
        while (client.backlog() > 0) {
            const auto sent = ::send(
                client.descriptor,
                client.out.data() + client.written,
                client.backlog(),
                MSG_NOSIGNAL);
            if (sent >= 0) {
                client.written += static_cast<std::size_t>(sent);
            } else if (errno == EAGAIN) {
                return;
            } else if (errno != EINTR) {
                // Not closed here: the caller may be iterating over the clients.
                client.is_ending = true;
                client.out.clear();
                client.written = 0;
            }
        }
        client.out.clear();
        client.written = 0;
    }

    /// Closes clients that were silent for too long, and ending clients without remaining output;
    /// resumes clients whose backlog has been sent.
    void close_silent() {
        std::vector<std::uint64_t> over;
        std::vector<std::uint64_t> resumed;
        for (const auto& [id, client] : clients_) {
            const bool is_silent = !client.decoder.has_greeted() && client.greet_by <= now_;
            if (is_silent || (client.is_ending && client.backlog() == 0))
                over.push_back(id);
            else if (client.is_readable() && !client.decoder.unread().empty())
                resumed.push_back(id);
        }
        for (const auto id : over)
            close(id);
        for (const auto id : resumed)
            handle_requests(id);
    }

    void close(std::uint64_t id) {
        const auto found = clients_.find(id);
        if (found == clients_.end()) return;
        ::close(found->second.descriptor);
        clients_.erase(found);
        handle(store::Store::Disconnected{ConnectionId{id}});
    }

    StoreHost& host_;
    store::Store machine_;
    std::map<std::uint64_t, Client> clients_;
    std::uint64_t next_id_ = 1;
    Instant now_ = Clock::now();
    std::optional<Instant> linger_until_;
    std::optional<Instant> accept_again_at_;
    std::vector<pollfd> waits_;
    std::vector<std::uint64_t> ids_;
    std::array<char, 64 * 1024> chunk_;
};

Result<std::shared_ptr<StoreHost>> StoreHost::listen(const std::string& host, std::uint16_t port) {
    const auto listener = open_listener(host, port);
    if (!listener) return listener.error();
    const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0) {
        const int error = errno;
        ::close(*listener);
        return Failure{system_code(error), "eventfd"};
    }
    try {
        return std::shared_ptr<StoreHost>(new StoreHost(*listener, wake, port_of(*listener)));
    } catch (const std::system_error& error) {
        ::close(*listener);
        ::close(wake);
        return Failure{error.code(), describe_start_failure(error.code(), "start a thread")};
    }
}

StoreHost::StoreHost(int listener, int wake, std::uint16_t port)
    : listener_(listener),
      wake_(wake),
      port_(port) {
    thread_ = start_signal_masked_thread([this] { Loop(*this).run(); });
}

StoreHost::~StoreHost() {
    closes_at_once_ = std::uncaught_exceptions() > 0;
    is_stopping_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
    thread_.join();
    ::close(listener_);
    ::close(wake_);
}

}  // namespace ddprun::store_access
