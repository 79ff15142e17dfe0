// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/tcp.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/deadline.hpp"

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/this_coro.hpp>

#include <fcntl.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace ddprun::net {
namespace {

void close_on_exec(int descriptor) {
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

void set_number(int descriptor, int level, int option, std::chrono::milliseconds::rep value) {
    const auto number = static_cast<int>(value);
    ::setsockopt(descriptor, level, option, &number, sizeof number);
}

int number_of(int descriptor, int level, int option) {
    int number = 0;
    socklen_t size = sizeof number;
    return ::getsockopt(descriptor, level, option, &number, &size) == 0 ? number : -1;
}

struct Probing {
    Duration idle;
    Duration interval;
    int probes;
};

void probe_when_idle(int descriptor, const Probing& probing) {
    using namespace std::chrono;
    const auto in_seconds = [](Duration length) { return duration_cast<seconds>(length).count(); };
    set_number(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_number(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, in_seconds(probing.idle));
    set_number(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, in_seconds(probing.interval));
    set_number(descriptor, IPPROTO_TCP, TCP_KEEPCNT, probing.probes);
}

/// Sets up a listening socket, whether created or inherited. Accepted sockets inherit its
/// keep-alive settings, which saves a call for each.
error_code begin_to_listen(Tcp::acceptor& acceptor) {
    close_on_exec(acceptor.native_handle());
    probe_when_idle(
        acceptor.native_handle(),
        {limits::caller_keepalive_idle,
         limits::caller_keepalive_interval,
         limits::caller_keepalive_probes});
    error_code ec;
    acceptor.listen(limits::max_accept_backlog, ec);
    return ec;
}

/// Makes one attempt at one address; `is_dual` means the wildcard of both families.
error_code try_listen(Tcp::acceptor& acceptor, const Tcp::endpoint& address, bool is_dual) {
    error_code ec;
    acceptor.open(address.protocol(), ec);
    if (ec) return ec;
    acceptor.set_option(Tcp::acceptor::reuse_address(true), ec);
    if (!ec && address.protocol() == Tcp::v6())
        acceptor.set_option(boost::asio::ip::v6_only(!is_dual), ec);
    if (!ec) acceptor.bind(address, ec);
    if (!ec) ec = begin_to_listen(acceptor);
    if (ec) {
        error_code ignored;
        acceptor.close(ignored);
    }
    return ec;
}

std::string command_of(const std::filesystem::path& process) {
    std::string name;
    std::getline(std::ifstream(process / "comm"), name);
    // The kernel keeps 15 bytes of a process name; a longer name is complete on the command line.
    constexpr std::size_t kept_bytes = 15;
    if (name.size() < kept_bytes) return name;
    std::string argument;
    std::getline(std::ifstream(process / "cmdline"), argument, '\0');
    const auto program = std::filesystem::path(argument).filename().string();
    return program.starts_with(name) ? program : name;
}

/// The socket that listens on a port, in the form of /proc/net/tcp.
struct ListeningSocket {
    std::string inode;
    std::string user;
};

std::optional<ListeningSocket> listening_socket(const char* table, std::uint16_t port) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    constexpr std::string_view listen_state = " 0A ";
    while (std::getline(file, line)) {
        // Skips other sockets before parsing, since the table may have thousands of connections.
        if (line.find(listen_state) == std::string::npos) continue;
        std::istringstream words(line);
        std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
        words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
            timeout >> inode;
        const auto colon = local.rfind(':');
        if (colon == std::string::npos) continue;
        unsigned number = 0;
        std::from_chars(local.data() + colon + 1, local.data() + local.size(), number, 16);
        if (number == port) return ListeningSocket{inode, uid};
    }
    return std::nullopt;
}

/// Why the descriptor cannot be used to listen; empty when it can.
std::string why_not_listening(int descriptor) {
    if (number_of(descriptor, SOL_SOCKET, SO_TYPE) < 0)
        return errno == ENOTSOCK ? "it is no socket" : system_code(errno).message();
    const int family = number_of(descriptor, SOL_SOCKET, SO_DOMAIN);
    if (family != AF_INET && family != AF_INET6) return "it is no internet socket";
    if (number_of(descriptor, SOL_SOCKET, SO_TYPE) != SOCK_STREAM) return "it is no TCP socket";
    if (number_of(descriptor, SOL_SOCKET, SO_ACCEPTCONN) != 1)
        return "it does not listen (a socket unit needs Accept=no)";
    return {};
}

/// How many descriptors are inspected for one call.
constexpr int most_descriptors = 200'000;

}  // namespace

Result<Tcp::acceptor> listen(
    boost::asio::io_context& io, const std::string& host, std::uint16_t port) {
    Tcp::acceptor acceptor(io);
    error_code ec;
    if (host.empty()) {
        ec = try_listen(acceptor, {Tcp::v6(), port}, true);
        if (ec == boost::asio::error::address_family_not_supported)
            ec = try_listen(acceptor, {Tcp::v4(), port}, false);
    } else {
        const auto address = boost::asio::ip::make_address(host, ec);
        if (!ec) ec = try_listen(acceptor, {address, port}, false);
    }
    if (ec) {
        const Endpoint wanted{host.empty() ? "*" : host, port};
        return Failure{ec, "listen on " + wanted.to_string()};
    }
    return acceptor;
}

Result<Tcp::acceptor> take_listening(boost::asio::io_context& io, int descriptor) {
    const auto context = "descriptor " + std::to_string(descriptor);
    if (const auto why_not = why_not_listening(descriptor); !why_not.empty())
        return Failure{system_code(EINVAL), context + ": " + why_not};
    Tcp::acceptor acceptor(io);
    const bool is_v6 = number_of(descriptor, SOL_SOCKET, SO_DOMAIN) == AF_INET6;
    error_code ec;
    acceptor.assign(is_v6 ? Tcp::v6() : Tcp::v4(), descriptor, ec);
    if (!ec) ec = begin_to_listen(acceptor);
    if (ec) return Failure{ec, context};
    return acceptor;
}

std::optional<int> granted_backlog(Tcp::acceptor& acceptor) {
    tcp_info info{};
    socklen_t size = sizeof info;
    const int answer = ::getsockopt(acceptor.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size);
    // For a listening socket these two fields are its backlog and the number of waiting
    // connections.
    if (answer != 0 || info.tcpi_sacked == 0) return std::nullopt;
    return static_cast<int>(info.tcpi_sacked);
}

std::uint32_t dropped_callers(Tcp::acceptor& acceptor) {
    std::array<std::uint32_t, SK_MEMINFO_VARS> numbers{};
    socklen_t size = sizeof numbers;
    const int answer =
        ::getsockopt(acceptor.native_handle(), SOL_SOCKET, SO_MEMINFO, numbers.data(), &size);
    return answer == 0 ? numbers[SK_MEMINFO_DROPS] : 0;
}

boost::asio::awaitable<Result<std::vector<Tcp::endpoint>>> resolve(Endpoint endpoint) {
    // Asio's resolver starts a thread; a numeric address needs none.
    error_code is_name;
    const auto numeric = boost::asio::ip::make_address(endpoint.host, is_name);
    if (!is_name) co_return std::vector<Tcp::endpoint>{{numeric, endpoint.port}};
    Tcp::resolver resolver(co_await boost::asio::this_coro::executor);
    const auto [ec, found] = co_await resolver.async_resolve(
        endpoint.host, std::to_string(endpoint.port), Tcp::resolver::numeric_service, as_values);
    if (ec) co_return Failure{ec, "resolve " + endpoint.host};
    std::vector<Tcp::endpoint> addresses;
    for (const auto& entry : found)
        addresses.push_back(entry.endpoint());
    // Servers and stores at `localhost` always listen at 127.0.0.1, but only perhaps at ::1.
    if (endpoint.host == "localhost")
        std::stable_partition(addresses.begin(), addresses.end(), [](const auto& address) {
            return address.address().is_v4();
        });
    co_return addresses;
}

boost::asio::awaitable<Result<Tcp::socket>> connect(std::vector<Tcp::endpoint> addresses) {
    Failure last{boost::asio::error::host_not_found, "connect"};
    for (const auto& address : addresses) {
        Tcp::socket socket(co_await boost::asio::this_coro::executor);
        error_code ec;
        {
            Deadline deadline(
                socket.get_executor(), limits::connect_attempt_timeout, [&] { close(socket); });
            std::tie(ec) = co_await socket.async_connect(address, as_values);
            if (deadline.has_passed()) ec = boost::asio::error::timed_out;
        }
        if (!ec) {
            prepare(socket);
            co_return socket;
        }
        const Endpoint tried{unwrap_mapped(address.address().to_string()), address.port()};
        last = Failure{ec, "connect to " + tried.to_string()};
    }
    co_return last;
}

void prepare(Tcp::socket& socket) {
    close_on_exec(socket.native_handle());
    error_code ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
}

void notice_lost_peer(Tcp::socket& socket) {
    using std::chrono::milliseconds;
    constexpr Probing probing{
        limits::keepalive_idle, limits::keepalive_interval, limits::keepalive_probes};
    constexpr auto all = probing.idle + probing.probes * probing.interval;
    probe_when_idle(socket.native_handle(), probing);
    set_number(
        socket.native_handle(),
        IPPROTO_TCP,
        TCP_USER_TIMEOUT,
        std::chrono::duration_cast<milliseconds>(all).count());
}

std::string local_address(const Tcp::socket& socket) {
    error_code ec;
    const auto endpoint = socket.local_endpoint(ec);
    return ec ? "?" : unwrap_mapped(endpoint.address().to_string());
}

std::string peer_address(const Tcp::socket& socket) {
    error_code ec;
    const auto endpoint = socket.remote_endpoint(ec);
    return ec ? "?" : unwrap_mapped(endpoint.address().to_string());
}

std::string peer_network(const Tcp::socket& socket) {
    error_code ec;
    const auto address = socket.remote_endpoint(ec).address();
    if (ec || !address.is_v6() || address.to_v6().is_v4_mapped()) return peer_address(socket);
    auto bytes = address.to_v6().to_bytes();
    std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
    return boost::asio::ip::address_v6{bytes}.to_string() + "/64";
}

std::string peer_name(const Tcp::socket& socket) {
    error_code ec;
    const auto endpoint = socket.remote_endpoint(ec);
    if (ec) return "?";
    return Endpoint{unwrap_mapped(endpoint.address().to_string()), endpoint.port()}.to_string();
}

void close(Tcp::socket& socket) {
    error_code ignored;
    socket.close(ignored);
}

std::string listener_on_port(std::uint16_t port) {
    auto socket = listening_socket("/proc/net/tcp", port);
    if (!socket) socket = listening_socket("/proc/net/tcp6", port);
    if (!socket) return {};
    const auto wanted = "socket:[" + socket->inode + "]";
    int looked_at = 0;
    std::error_code ec;
    for (const auto& process : std::filesystem::directory_iterator("/proc", ec)) {
        const auto pid = process.path().filename().string();
        if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
        std::error_code unreadable;
        for (const auto& link :
             std::filesystem::directory_iterator(process.path() / "fd", unreadable)) {
            if (++looked_at > most_descriptors) return {};
            std::error_code gone;
            if (std::filesystem::read_symlink(link.path(), gone) == wanted)
                return command_of(process.path()) + " (pid " + pid + ")";
        }
    }
    const bool is_anothers = socket->user != std::to_string(::getuid());
    return is_anothers ? "a process of the user " + socket->user : std::string{};
}

}  // namespace ddprun::net
