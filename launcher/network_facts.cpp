// SPDX-License-Identifier: Apache-2.0
#include "launcher/network_facts.hpp"

#include "launcher/server_placement.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/descriptor.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/wall_time.hpp"
#include "rendezvous/client/blocking_socket.hpp"
#include "rendezvous/net/tcp.hpp"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ddprun::launcher {
namespace {

using client::BlockingSocket;

/// Listens on all addresses, of both families if there are two.
int try_to_listen(std::uint16_t port) {
    const Descriptor six{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    const int on = 1;
    if (six.get() >= 0) {
        ::setsockopt(six.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (::bind(six.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0)
            return ::listen(six.get(), 1) == 0 ? 0 : errno;
        if (errno != EADDRNOTAVAIL) return errno;
    }
    const Descriptor four{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in any_four{};
    any_four.sin_family = AF_INET;
    any_four.sin_port = htons(port);
    ::setsockopt(four.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const auto* address = reinterpret_cast<const sockaddr*>(&any_four);
    if (::bind(four.get(), address, sizeof any_four) != 0) return errno;
    return ::listen(four.get(), 1) == 0 ? 0 : errno;
}

void look_at_ports(NetworkFacts& facts, const PortRange& ports) {
    constexpr int enough = 4;
    constexpr int most_tries = 200;
    facts.first_port = ports.first;
    facts.last_port = ports.last;
    for (int port = ports.first; port <= ports.last && facts.ports_tried < most_tries; ++port) {
        ++facts.ports_tried;
        if (try_to_listen(static_cast<std::uint16_t>(port)) == 0) ++facts.ports_free;
        if (facts.ports_free == enough) return;
    }
}

/// The local address that packets to this address would have; nothing is sent.
std::string own_address_towards(const BlockingSocket::Address& there) {
    const Descriptor asked{::socket(there.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const auto* address = reinterpret_cast<const sockaddr*>(&there.storage);
    if (::connect(asked.get(), address, there.size) != 0) return {};
    BlockingSocket::Address here;
    here.size = sizeof here.storage;
    if (::getsockname(asked.get(), reinterpret_cast<sockaddr*>(&here.storage), &here.size) != 0)
        return {};
    return here.to_endpoint().host;
}

int mtu_of(const std::string& interface) {
    std::ifstream file("/sys/class/net/" + interface + "/mtu");
    int mtu = 0;
    file >> mtu;
    return mtu;
}

/// The Date header of an answer, in seconds since 1970.
std::optional<std::int64_t> date_in(std::string_view head) {
    constexpr std::string_view name = "\r\nDate: ";
    const auto at = head.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string text{head.substr(at + name.size(), 64)};
    tm parts{};
    if (::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts) == nullptr)
        return std::nullopt;
    return ::timegm(&parts);
}

/// Requests /healthz.
void talk(BlockingSocket& socket, const Endpoint& there, ReachFacts& facts, Instant deadline) {
    const auto sent =
        socket.send("GET /healthz HTTP/1.1\r\nHost: " + there.to_string() + "\r\n\r\n", deadline);
    std::string answer;
    while (sent && answer.find("\r\n\r\n") == std::string::npos) {
        const auto bytes = socket.receive(deadline);
        if (!bytes || bytes->empty() || answer.size() > limits::max_http_header_bytes) break;
        answer += *bytes;
    }
    facts.is_ddprun = answer.starts_with("HTTP/1.1 200");
    if (const auto date = date_in(answer))
        facts.clock_difference_s = *date - unix_milliseconds() / 1000;
}

std::vector<std::string> hosts_of(const std::vector<BlockingSocket::Address>& addresses) {
    std::vector<std::string> hosts;
    for (const auto& address : addresses)
        hosts.push_back(address.to_endpoint().host);
    return hosts;
}

ReachFacts try_to_reach(
    const Endpoint& there, const std::vector<BlockingSocket::Address>& addresses) {
    ReachFacts facts;
    for (const auto& address : addresses) {
        const auto deadline = Clock::now() + 2 * limits::connect_attempt_timeout;
        auto socket = BlockingSocket::connect(address, deadline);
        facts.connect_error = socket ? 0 : socket.error().code.value();
        if (!socket) continue;
        talk(*socket, there, facts, deadline);
        break;
    }
    return facts;
}

void look_at_other_places(NetworkFacts& facts, const JobSpec& spec) {
    for (const auto& endpoint : spec.more_endpoints)
        facts.others.push_back({OtherPlace::Kind::endpoint, endpoint, {}, {}});
    if (const auto& witness = spec.witness.value)
        facts.others.push_back({OtherPlace::Kind::witness, *witness, {}, {}});
    for (auto& place : facts.others) {
        const auto addresses = BlockingSocket::resolve(place.endpoint);
        if (!addresses) continue;
        place.resolved = hosts_of(*addresses);
        place.reach = try_to_reach(place.endpoint, *addresses);
    }
}

void look_at_endpoint(NetworkFacts& facts, const SystemInfo& system) {
    const auto addresses = BlockingSocket::resolve(facts.endpoint);
    if (!addresses) return;
    facts.resolved = hosts_of(*addresses);
    if (facts.is_serving) {
        facts.listen_error = try_to_listen(facts.endpoint.port);
        if (facts.listen_error != 0) facts.holder = net::listener_on_port(facts.endpoint.port);
    } else {
        facts.reach = try_to_reach(facts.endpoint, *addresses);
    }
    for (const auto& address : *addresses) {
        facts.address = own_address_towards(address);
        const auto found = std::find_if(
            system.interfaces.begin(), system.interfaces.end(), [&](const auto& entry) {
                return entry.address == facts.address;
            });
        if (facts.address.empty() || found == system.interfaces.end()) continue;
        facts.interface = found->interface;
        facts.mtu = mtu_of(facts.interface);
        return;
    }
}

/// Gloo's variable is a list of names; NCCL's may have the beginning of a name, or begin with '^'
/// or '='.
void look_at_variables(NetworkFacts& facts, const SystemInfo& system) {
    const auto text = value_of(system.environment, "GLOO_SOCKET_IFNAME");
    if (!text) return;
    for (const auto name : split(*text, ',')) {
        const bool is_known =
            std::any_of(system.interfaces.begin(), system.interfaces.end(), [&](const auto& entry) {
                return entry.interface == name;
            });
        if (!is_known)
            facts.unknown_interfaces.push_back("GLOO_SOCKET_IFNAME=" + std::string{name});
    }
}

void look_at_limits(NetworkFacts& facts) {
    struct statvfs shm {};
    if (::statvfs("/dev/shm", &shm) == 0) {
        facts.shm_bytes = std::uint64_t{shm.f_blocks} * shm.f_frsize;
        facts.shm_free_bytes = std::uint64_t{shm.f_bavail} * shm.f_frsize;
    }
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        facts.memlock_bytes = limit.rlim_cur;
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.file_limit = limit.rlim_max;
    std::error_code ignored;
    const std::filesystem::path devices{"/sys/class/infiniband"};
    facts.has_infiniband =
        std::filesystem::exists(devices, ignored) && !std::filesystem::is_empty(devices, ignored);
}

}  // namespace

NetworkFacts network_facts(
    const JobSpec& spec, const SystemInfo& system, const std::string& file_problem) {
    NetworkFacts facts;
    facts.host_name = system.host_name;
    facts.own_name_problem = spec.own_name_problem;
    facts.endpoint = spec.endpoint.value;
    facts.placement = server_placement(spec, system);
    facts.is_serving = facts.placement.starts_with("this node serves");
    if (facts.endpoint.port != 0) look_at_endpoint(facts, system);
    look_at_other_places(facts, spec);
    look_at_ports(facts, spec.ports.value);
    look_at_variables(facts, system);
    look_at_limits(facts);
    facts.file_problem = file_problem;
    facts.gpu_count = system.count_gpus();
    return facts;
}

}  // namespace ddprun::launcher
