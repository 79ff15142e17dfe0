// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/network_namespace.hpp"

#include "tests/process/support/mount_namespace.hpp"
#include "tests/process/support/running.hpp"

#include <unistd.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace ddprun::test {

void must_ip(std::initializer_list<std::string> arguments) {
    Running command("ip", std::vector<std::string>(arguments));
    if (command.wait_for_code() != 0) throw std::runtime_error("ip: " + command.err());
}

std::string NetworkNamespace::why_not() {
    // `ip netns exec` creates a mount namespace.
    if (auto reason = why_no_mount_namespace(); !reason.empty()) return reason;
    try {
        const NetworkNamespace host("t");
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return {};
}

NetworkNamespace::NetworkNamespace(const std::string& role)
    : name_("ddp" + role + std::to_string(::getpid())) {
    must_ip({"netns", "add", name_});
    set_link({name_, "lo"}, "up");
}

NetworkNamespace::~NetworkNamespace() {
    if (name_.empty()) return;
    try {
        must_ip({"netns", "delete", name_});
    } catch (const std::runtime_error&) {
        // A namespace that stays is no failure here: the test has its own checks, and other
        // processes use other names.
    }
}

NetworkNamespace::NetworkNamespace(NetworkNamespace&& other) noexcept
    : name_(std::exchange(other.name_, {})) {}

void lay_cable(const CableEnd& one, const CableEnd& other) {
    must_ip(
        {"link",
         "add",
         one.interface,
         "netns",
         one.host,
         "type",
         "veth",
         "peer",
         "name",
         other.interface,
         "netns",
         other.host});
}

void plug_in(const CableEnd& end, const std::string& address) {
    // `nodad` is for IPv6: it skips the check for another host with this address, during which the
    // address would be unusable for a second.
    must_ip({"-n", end.host, "address", "add", address, "dev", end.interface, "nodad"});
    set_link(end, "up");
}

void set_link(const CableEnd& end, const std::string& state) {
    must_ip({"-n", end.host, "link", "set", end.interface, state});
}

}  // namespace ddprun::test
