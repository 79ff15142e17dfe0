// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>

namespace ddprun::server {
namespace {

std::string numeric(const sockaddr& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* bytes = nullptr;
    if (address.sa_family == AF_INET)
        bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    else if (address.sa_family == AF_INET6)
        bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (bytes == nullptr) return {};
    return inet_ntop(address.sa_family, bytes, text.data(), text.size()) ? text.data() : "";
}

}  // namespace

std::vector<std::string> interface_addresses() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return {};
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
    std::vector<std::string> addresses;
    for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr) continue;
        auto address = numeric(*entry->ifa_addr);
        if (!address.empty()) addresses.push_back(std::move(address));
    }
    return addresses;
}

}  // namespace ddprun::server
