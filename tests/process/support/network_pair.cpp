// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/network_pair.hpp"

#include "tests/process/support/mount_namespace.hpp"
#include "tests/process/support/running.hpp"

#include <unistd.h>

#include <initializer_list>
#include <stdexcept>

namespace ddprun::test {
namespace {

int ip(std::initializer_list<std::string> arguments) {
    Running command("ip", std::vector<std::string>(arguments));
    return command.wait_for_code();
}

void must_ip(std::initializer_list<std::string> arguments) {
    Running command("ip", std::vector<std::string>(arguments));
    if (command.wait_for_code() != 0) throw std::runtime_error("ip: " + command.err());
}

void plug_in(const NetworkPair::Host& host, NetworkPair::Family family) {
    // Skips the check for another host with this address, during which the address would be
    // unusable for a second.
    if (family == NetworkPair::Family::v6)
        must_ip(
            {"-n", host.name, "address", "add", host.address + "/64", "dev", host.name, "nodad"});
    else
        must_ip({"-n", host.name, "address", "add", host.address + "/30", "dev", host.name});
    must_ip({"-n", host.name, "link", "set", host.name, "up"});
    must_ip({"-n", host.name, "link", "set", "lo", "up"});
}

}  // namespace

std::string NetworkPair::why_not() {
    // `ip netns exec` creates a mount namespace.
    if (auto reason = why_no_mount_namespace(); !reason.empty()) return reason;
    const auto name = "ddpt" + std::to_string(::getpid());
    try {
        if (ip({"netns", "add", name}) != 0) return "ip netns add is not permitted here";
        ip({"netns", "delete", name});
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return {};
}

NetworkPair::NetworkPair(Family family) {
    const int pid = ::getpid();
    // Interface names hold 15 characters. Each pair has a network of its own inside its namespaces.
    const std::string network = family == Family::v6 ? "fd77::" : "10.77.0.";
    a_ = {"ddpa" + std::to_string(pid), network + "1"};
    b_ = {"ddpb" + std::to_string(pid), network + "2"};
    must_ip({"netns", "add", a_.name});
    must_ip({"netns", "add", b_.name});
    // Both ends are created inside, so that nothing appears in the machine's own namespace.
    must_ip(
        {"link",
         "add",
         a_.name,
         "netns",
         a_.name,
         "type",
         "veth",
         "peer",
         "name",
         b_.name,
         "netns",
         b_.name});
    plug_in(a_, family);
    plug_in(b_, family);
}

NetworkPair::~NetworkPair() {
    try {
        ip({"netns", "delete", a_.name});
        ip({"netns", "delete", b_.name});
    } catch (const std::runtime_error&) {
        // A namespace that stays is no failure here: the test has its own checks, and the next pair
        // uses other names.
    }
}

void NetworkPair::cut() const {
    must_ip({"-n", a_.name, "link", "set", a_.name, "down"});
}

void NetworkPair::heal() const {
    must_ip({"-n", a_.name, "link", "set", a_.name, "up"});
}

}  // namespace ddprun::test
