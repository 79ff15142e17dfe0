// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/host_field.hpp"

#include "rendezvous/server/http_request.hpp"

#include <arpa/inet.h>

#include <array>
#include <string>

namespace ddprun::server {
namespace {

bool is_address(int family, std::string_view text) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    return ::inet_pton(family, std::string{text}.c_str(), address.data()) == 1;
}

}  // namespace

bool names_this_machine(std::string_view host, std::string_view machine) {
    if (host.empty()) return true;
    if (host.starts_with('[')) {
        const auto end = host.find(']');
        return end != std::string_view::npos && is_address(AF_INET6, host.substr(1, end - 1));
    }
    auto name = host.substr(0, host.find(':'));
    if (name.ends_with('.')) name.remove_suffix(1);
    return is_address(AF_INET, name) || equal_but_for_case(name, "localhost") ||
           (!machine.empty() && equal_but_for_case(name, machine));
}

}  // namespace ddprun::server
