// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/store/local_address.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

namespace ddprun {

namespace {

std::string source_address(const addrinfo& target) {
    const int descriptor = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return {};
    sockaddr_storage source{};
    socklen_t size = sizeof source;
    auto* address = reinterpret_cast<sockaddr*>(&source);
    std::array<char, NI_MAXHOST> text{};
    const bool known =
        ::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 &&
        ::getsockname(descriptor, address, &size) == 0 &&
        ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    ::close(descriptor);
    return known ? unwrap_mapped(text.data()) : std::string{};
}

bool can_bind(const addrinfo& address) {
    const int descriptor = ::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return false;
    const bool is_bound = ::bind(descriptor, address.ai_addr, address.ai_addrlen) == 0;
    ::close(descriptor);
    return is_bound;
}

/// Null when the name does not resolve.
std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> resolve(
    const std::string& host, const std::string& port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
    return {found, &::freeaddrinfo};
}

}  // namespace

std::string local_address_towards(const Endpoint& server) {
    const auto targets = resolve(server.host, std::to_string(server.port));
    for (const auto* target = targets.get(); target; target = target->ai_next)
        if (auto address = source_address(*target); !address.empty()) return address;
    return {};
}

bool is_address_of_this_machine(const std::string& address) {
    const auto found = resolve(address, "0");
    for (const auto* one = found.get(); one; one = one->ai_next)
        if (can_bind(*one)) return true;
    return false;
}

std::vector<std::string> addresses_of_this_machine() {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) return {};
    std::vector<std::string> addresses;
    for (const auto* one = first; one; one = one->ifa_next) {
        if (!one->ifa_addr || (one->ifa_flags & IFF_UP) == 0) continue;
        const int family = one->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        std::array<char, NI_MAXHOST> text{};
        if (::getnameinfo(
                one->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
            continue;
        const std::string address = text.data();
        if (address.find('%') == std::string::npos) addresses.push_back(unwrap_mapped(address));
    }
    ::freeifaddrs(first);
    std::stable_partition(addresses.begin(), addresses.end(), [](const std::string& address) {
        return !is_loopback(address);
    });
    return addresses;
}

}  // namespace ddprun
