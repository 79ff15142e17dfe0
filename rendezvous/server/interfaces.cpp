// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>

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

std::vector<InterfaceAddress> interfaces() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return {};
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
    std::vector<InterfaceAddress> all;
    for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr) continue;
        auto address = numeric(*entry->ifa_addr);
        if (!address.empty()) all.push_back({entry->ifa_name, std::move(address)});
    }
    return all;
}

std::vector<std::string> interface_addresses() {
    std::vector<std::string> addresses;
    for (auto& entry : interfaces())
        addresses.push_back(std::move(entry.address));
    return addresses;
}

std::string interface_with(std::string_view address) {
    if (const auto scope = address.find('%'); scope != address.npos)
        return std::string{address.substr(scope + 1)};
    for (auto& entry : interfaces())
        if (entry.address == address) return std::move(entry.interface);
    return {};
}

}  // namespace ddprun::server
