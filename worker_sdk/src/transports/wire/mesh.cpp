// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/mesh.hpp"

#include "worker_sdk/src/transports/wire/silence.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <climits>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

namespace ddprun::groups {

namespace {

using std::chrono::milliseconds;

/// The first bytes that a rank sends: its number, and the peer's token.
struct Greeting {
    static constexpr std::uint32_t current_version = 0x77697201;

    std::uint32_t version;
    std::int32_t rank;
    Token token;
};
static_assert(sizeof(Greeting) == 24);

/// How many connections without a greeting are kept at most, in addition to one for each rank.
constexpr std::size_t most_unknown = 16;
/// After this many accepted connections the other sockets and the deadline are checked.
constexpr int most_accepted_at_once = 64;
/// Descriptors that a process needs at least, besides those of one group's connections.
constexpr rlim_t other_descriptors = 16;

GroupError failure(const std::string& what, int number) {
    return {GroupError::Kind::other, what + ": " + ::strerror(number)};
}

rlim_t most_descriptors() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/// Whether the error is temporary, as from a network that is being set up or interrupted.
bool is_for_a_moment(int number) {
    return number == EHOSTUNREACH || number == ENETUNREACH || number == ETIMEDOUT;
}

GroupError lost_while_connecting(int peer, const std::string& why) {
    return {GroupError::Kind::peer_lost, why, {peer}};
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host, std::uint16_t port, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | flags;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
        found = nullptr;
    return {found, &::freeaddrinfo};
}

/// TCP_NODELAY: each message is complete, so delaying it to add more is useless.
void prepare(int socket) {
    constexpr int yes = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ask_when_idle(socket);
}

/// The numeric address of a listening socket.
std::variant<PeerAddress, GroupError> name_of(int socket) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    auto* const address = reinterpret_cast<sockaddr*>(&name);
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    if (::getsockname(socket, address, &size) != 0) return failure("getsockname", errno);
    const int wrong = ::getnameinfo(
        address,
        size,
        host.data(),
        host.size(),
        port.data(),
        port.size(),
        NI_NUMERICHOST | NI_NUMERICSERV);
    if (wrong != 0) return GroupError{GroupError::Kind::other, ::gai_strerror(wrong)};
    PeerAddress found;
    found.host = host.data();
    found.port = static_cast<std::uint16_t>(std::stoi(port.data()));
    return found;
}

/// Resets the connection: bytes sent before may be lost too. The descriptor stays valid, since
/// another thread may use it.
void break_off(int socket) {
    sockaddr nothing{};
    nothing.sa_family = AF_UNSPEC;
    if (::connect(socket, &nothing, sizeof nothing) != 0) ::shutdown(socket, SHUT_RDWR);
}

/// Identifies this boot of the machine and the network namespace.
std::string own_network() {
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    std::string name(PATH_MAX, '\0');
    const auto size = ::readlink("/proc/self/ns/net", name.data(), name.size());
    name.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return boot + "/" + name;
}

int milliseconds_until(Mesh::Clock::time_point until) {
    constexpr long longest = 60'000;  // waits that are longer call again
    const auto left = std::chrono::ceil<milliseconds>(until - Mesh::Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, longest));
}

}  // namespace

/// A connection that is being made.
struct Mesh::Guest {
    enum class State {
        connecting,  ///< connects to that peer
        greeted,     ///< connected and greeted: waits for the peer's answer
        unknown,     ///< accepted: waits for the peer's greeting
        over,
    };

    Descriptor socket;
    State state = State::unknown;
    int peer = -1;
    std::array<unsigned char, sizeof(Greeting)> bytes{};
    std::size_t got = 0;
    bool is_ready = false;
};

Mesh::Mesh(const Settings& settings) : settings_(settings), polling_(settings.has_core) {}

Mesh::~Mesh() = default;

std::variant<std::unique_ptr<Mesh>, GroupError> Mesh::open(const Settings& settings) {
    auto mesh = std::make_unique<Mesh>(settings);
    if (auto error = mesh->listen()) return std::move(*error);
    return mesh;
}

Outcome Mesh::listen() {
    if (const auto most = most_descriptors();
        static_cast<rlim_t>(ranks()) + other_descriptors > most)
        return GroupError{
            GroupError::Kind::other,
            "connections of " + std::to_string(ranks()) +
                " ranks take a descriptor each, and this process may have " + std::to_string(most) +
                " (ulimit -n)"};
    links_.resize(static_cast<std::size_t>(ranks()));
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return failure("eventfd", errno);
    const auto found = resolve(settings_.address, 0, AI_PASSIVE);
    if (!found) return GroupError{GroupError::Kind::other, "this is no address"};
    Outcome error;
    for (const auto* one = found.get(); one; one = one->ai_next) {
        error = bind_to(*one);
        if (!error) break;
    }
    if (error) return error;
    auto name = name_of(listener_.get());
    if (auto* wrong = std::get_if<GroupError>(&name)) return std::move(*wrong);
    own_address_ = std::get<PeerAddress>(std::move(name));
    own_address_.network = own_network();
    auto& token = own_address_.token;
    if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
        return failure("getrandom", errno);
    return {};
}

Outcome Mesh::bind_to(const addrinfo& address) {
    listener_ =
        Descriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener_) return failure("socket", errno);
    if (::bind(listener_.get(), address.ai_addr, address.ai_addrlen) != 0)
        return failure("bind", errno);
    if (::listen(listener_.get(), SOMAXCONN) != 0) return failure("listen", errno);
    return {};
}

Outcome Mesh::connect(const std::vector<PeerAddress>& addresses, const Limits& limits) {
    auto error = connect_all(addresses, limits);
    if (!error)
        drop_guests();
    else
        // Ranks that connect later would wait for an answer that never comes.
        ::shutdown(listener_.get(), SHUT_RDWR);
    return error;
}

Outcome Mesh::connect_all(const std::vector<PeerAddress>& addresses, const Limits& limits) {
    for (int peer = 0; peer < rank(); ++peer)
        if (auto error = begin_connecting(peer, addresses[static_cast<std::size_t>(peer)]))
            return error;
    auto next_call = Clock::now() + waiting_times::connection_check_interval;
    // Checks the deadline in every turn: connections of other programs may be ready all the time.
    for (;;) {
        if (is_aborted_) return aborted();
        if (auto error = handle_all(addresses)) return error;
        if (auto error = accept_guests(addresses)) return error;
        const auto missing = not_connected();
        if (missing.empty()) return {};
        const auto now = Clock::now();
        if (is_aborted_) return aborted();
        if (now >= limits.until)
            return GroupError{GroupError::Kind::timeout, "no connection" + why_unreached_, missing};
        if (now >= next_call) {
            if (limits.during_wait) limits.during_wait();
            next_call = Clock::now() + waiting_times::connection_check_interval;
        }
        if (auto error = retry_all(addresses)) return error;
        if (auto error = await_guests(std::min(limits.until, next_call))) return error;
    }
}

std::vector<int> Mesh::not_connected() const {
    std::vector<int> missing;
    for (int peer = 0; peer < ranks(); ++peer)
        if (peer != rank() && socket_of(peer) < 0) missing.push_back(peer);
    return missing;
}

/// All ranks are connected: closes the remaining connections, which are from other programs.
void Mesh::drop_guests() {
    const std::lock_guard lock(mutex_);
    guests_.clear();
    listener_ = Descriptor{};
}

Outcome Mesh::begin_connecting(int peer, const PeerAddress& address) {
    const auto found = resolve(address.host, address.port, AI_NUMERICHOST);
    if (!found) return lost_while_connecting(peer, address.host + " is no address");
    auto guest = std::make_unique<Guest>();
    guest->socket =
        Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!guest->socket) return failure("socket", errno);
    guest->peer = peer;
    guest->state = Guest::State::connecting;
    prepare(guest->socket.get());
    const int begun = ::connect(guest->socket.get(), found->ai_addr, found->ai_addrlen);
    if (begun != 0 && errno != EINPROGRESS) return not_reached(peer, errno);
    add(std::move(guest));
    return {};
}

/// A peer that refuses has ended. A temporary error is retried until the deadline.
Outcome Mesh::not_reached(int peer, int number) {
    if (!is_for_a_moment(number)) return lost_while_connecting(peer, ::strerror(number));
    if (unreached_.empty()) next_retry_ = Clock::now() + waiting_times::connection_check_interval;
    unreached_.push_back(peer);
    why_unreached_ = std::string(": ") + ::strerror(number);
    return {};
}

Outcome Mesh::retry_all(const std::vector<PeerAddress>& addresses) {
    if (unreached_.empty() || Clock::now() < next_retry_) return {};
    for (const int peer : std::exchange(unreached_, {}))
        if (auto error = begin_connecting(peer, addresses[static_cast<std::size_t>(peer)]))
            return error;
    return {};
}

void Mesh::add(std::unique_ptr<Guest> guest) {
    const std::lock_guard lock(mutex_);
    // An `abort` before this did not close the new connection.
    if (is_aborted_) break_off(guest->socket.get());
    guests_.push_back(std::move(guest));
}

Outcome Mesh::await_guests(Clock::time_point until) {
    std::vector<pollfd> sockets{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& guest : guests_) {
        const bool is_connecting = guest->state == Guest::State::connecting;
        const short events = is_connecting ? POLLOUT : POLLIN;
        sockets.push_back({guest->socket.get(), events, 0});
    }
    if (::poll(sockets.data(), sockets.size(), milliseconds_until(until)) < 0) {
        if (errno == EINTR) return {};
        return failure("poll", errno);
    }
    for (std::size_t i = 0; i < guests_.size(); ++i)
        guests_[i]->is_ready = sockets[i + 2].revents != 0;
    has_callers_ = sockets[1].revents != 0;
    return {};
}

/// Accepts connections and reads at once what each peer has already sent, so that it does not count
/// as unknown.
Outcome Mesh::accept_guests(const std::vector<PeerAddress>& addresses) {
    if (!std::exchange(has_callers_, false)) return {};
    for (int i = 0; i < most_accepted_at_once && !is_aborted_; ++i) {
        Descriptor socket(
            ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) {
            if (errno == EAGAIN) break;
            if (errno == EMFILE)
                return GroupError{
                    GroupError::Kind::other,
                    "accept: this process may have no more than " +
                        std::to_string(most_descriptors()) + " descriptors (ulimit -n)"};
            if (errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                return failure("accept", errno);
            continue;  // a connection that has already ended
        }
        prepare(socket.get());
        auto guest = std::make_unique<Guest>();
        guest->socket = std::move(socket);
        add(std::move(guest));
        if (auto error = handle(*guests_.back(), addresses)) return error;
    }
    return keep_guests_few(addresses);
}

/// Closes the oldest unknown connections, except those that have just sent a valid greeting.
Outcome Mesh::keep_guests_few(const std::vector<PeerAddress>& addresses) {
    const auto is_unknown = [](const auto& guest) { return guest->state == Guest::State::unknown; };
    auto count =
        static_cast<std::size_t>(std::count_if(guests_.begin(), guests_.end(), is_unknown));
    for (const auto& guest : guests_) {
        if (count <= links_.size() + most_unknown) break;
        if (!is_unknown(guest)) continue;
        if (auto error = handle(*guest, addresses)) return error;
        guest->state = Guest::State::over;
        --count;
    }
    drop_ended_guests();
    return {};
}

Outcome Mesh::handle_all(const std::vector<PeerAddress>& addresses) {
    for (const auto& guest : guests_)
        if (std::exchange(guest->is_ready, false))
            if (auto error = handle(*guest, addresses)) return error;
    drop_ended_guests();
    return {};
}

void Mesh::drop_ended_guests() {
    const std::lock_guard lock(mutex_);
    std::erase_if(guests_, [](const auto& guest) { return guest->state == Guest::State::over; });
}

/// Performs the connection's next step. An invalid connection of another program is no error.
Outcome Mesh::handle(Guest& guest, const std::vector<PeerAddress>& addresses) {
    const auto address_of = [&](int peer) -> const PeerAddress& {
        return addresses[static_cast<std::size_t>(peer)];
    };
    Outcome lost;
    switch (guest.state) {
        case Guest::State::connecting: {
            int wrong = 0;
            socklen_t size = sizeof wrong;
            ::getsockopt(guest.socket.get(), SOL_SOCKET, SO_ERROR, &wrong, &size);
            if (wrong != 0) {
                guest.state = Guest::State::over;
                return not_reached(guest.peer, wrong);
            }
            const Greeting greeting{
                Greeting::current_version, rank(), address_of(guest.peer).token};
            const auto sent = ::send(guest.socket.get(), &greeting, sizeof greeting, MSG_NOSIGNAL);
            if (sent != static_cast<ssize_t>(sizeof greeting))
                return lost_while_connecting(guest.peer, ::strerror(errno));
            guest.state = Guest::State::greeted;
            return {};
        }
        case Guest::State::greeted: {
            if (!read_from(guest, sizeof(Token), lost)) return lost;
            Token answer{};
            ::memcpy(answer.data(), guest.bytes.data(), answer.size());
            if (!is_same(answer, own_address_.token))
                return lost_while_connecting(guest.peer, "its answer is not of this group");
            seat(guest);
            return {};
        }
        case Guest::State::unknown: return handle_unknown(guest, addresses);
        case Guest::State::over: return {};
    }
    return {};
}

Outcome Mesh::handle_unknown(Guest& guest, const std::vector<PeerAddress>& addresses) {
    Outcome lost;
    if (!read_from(guest, sizeof(Greeting), lost)) {
        if (lost) guest.state = Guest::State::over;
        return {};
    }
    Greeting greeting{};
    ::memcpy(&greeting, guest.bytes.data(), sizeof greeting);
    const bool is_expected = greeting.version == Greeting::current_version &&
                             greeting.rank > rank() && greeting.rank < ranks() &&
                             socket_of(greeting.rank) < 0 &&
                             is_same(greeting.token, own_address_.token);
    guest.state = Guest::State::over;
    if (!is_expected) return {};
    guest.peer = greeting.rank;
    const auto& answer = addresses[static_cast<std::size_t>(guest.peer)].token;
    const auto sent = ::send(guest.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(answer.size()))
        return lost_while_connecting(guest.peer, ::strerror(errno));
    seat(guest);
    return {};
}

/// Returns true when this many bytes have arrived. It reads no further byte, since those belong to
/// the first call.
bool Mesh::read_from(Guest& guest, std::size_t bytes, Outcome& lost) {
    const auto got =
        ::recv(guest.socket.get(), guest.bytes.data() + guest.got, bytes - guest.got, MSG_DONTWAIT);
    if (got > 0) guest.got += static_cast<std::size_t>(got);
    const bool is_closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    if (is_closed)
        lost = lost_while_connecting(
            guest.peer, got == 0 ? "its connection was closed" : ::strerror(errno));
    return guest.got == bytes;
}

void Mesh::seat(Guest& guest) {
    const std::lock_guard lock(mutex_);
    links_[static_cast<std::size_t>(guest.peer)] = std::move(guest.socket);
    guest.state = Guest::State::over;
    // An `abort` before this did not close the new connection.
    if (is_aborted_) break_off(socket_of(guest.peer));
}

void Mesh::abort() {
    const std::lock_guard lock(mutex_);
    if (!is_aborted_)
        for (int peer = 0; peer < ranks(); ++peer)
            if (is_closed(peer)) closed_before_abort_.push_back(peer);
    is_aborted_ = true;
    for (const auto& link : links_)
        if (link) break_off(link.get());
    for (const auto& guest : guests_)
        if (guest->socket) break_off(guest->socket.get());
    if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
    constexpr std::uint64_t one = 1;
    // When it is full, all waits wake up anyway.
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

GroupError Mesh::aborted() const {
    const std::lock_guard lock(mutex_);
    return {GroupError::Kind::peer_lost, "aborted", closed_before_abort_};
}

/// Whether the peer has closed its side, or is gone.
bool Mesh::is_closed(int peer) const {
    if (socket_of(peer) < 0) return false;
    pollfd socket{socket_of(peer), POLLRDHUP, 0};
    return ::poll(&socket, 1, 0) > 0;
}

bool Mesh::is_any_closed() const {
    const std::lock_guard lock(mutex_);
    for (int peer = 0; peer < ranks(); ++peer)
        if (is_closed(peer)) return true;
    return false;
}

Outcome Mesh::perform(
    Exchange& exchange, const Collective& call, std::uint32_t tag, const Limits& limits) {
    Transfer::Settings settings{
        rank(),
        {},
        call,
        tag,
        wake_.get(),
        is_aborted_,
        polling_,
        limits.until,
        limits.during_wait};
    for (int peer = 0; peer < ranks(); ++peer)
        settings.sockets.push_back(socket_of(peer));
    const auto end = Transfer(exchange, std::move(settings)).run();
    if (std::holds_alternative<Transfer::Done>(end)) return {};
    if (is_aborted_) return aborted();
    if (const auto* late = std::get_if<Transfer::Late>(&end))
        return GroupError{GroupError::Kind::timeout, {}, late->peers};
    if (const auto* differs = std::get_if<Transfer::Differs>(&end))
        return GroupError{GroupError::Kind::mismatch, describe(differs->call), {differs->peer}};
    if (const auto* failed = std::get_if<Transfer::Failed>(&end))
        return GroupError{GroupError::Kind::other, failed->why};
    const auto& lost = std::get<Transfer::Lost>(end);
    return GroupError{GroupError::Kind::peer_lost, lost.why, {lost.peer}};
}

}  // namespace ddprun::groups
