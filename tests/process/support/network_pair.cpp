// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/network_pair.hpp"

#include "tests/process/support/mount_namespace.hpp"
#include "tests/process/support/running.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <stdexcept>
#include <system_error>

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

/// A cable to one host of a pair. The weak host model of Linux makes the pair's own address of that
/// host reachable through it.
void plug_in_third(
    const std::string& third, const NetworkPair::Host& host, const std::string& network) {
    const auto cable = "x" + host.name;
    must_ip(
        {"link",
         "add",
         cable,
         "netns",
         third,
         "type",
         "veth",
         "peer",
         "name",
         cable,
         "netns",
         host.name});
    must_ip({"-n", third, "address", "add", network + "1/30", "dev", cable});
    must_ip({"-n", host.name, "address", "add", network + "2/30", "dev", cable});
    must_ip({"-n", third, "link", "set", cable, "up"});
    must_ip({"-n", host.name, "link", "set", cable, "up"});
    must_ip({"-n", third, "route", "add", host.address + "/32", "via", network + "2"});
}

const std::string network_of_b = "10.77.2.";

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

ThirdHost::ThirdHost(const NetworkPair& pair) : name_("ddpc" + std::to_string(::getpid())) {
    must_ip({"netns", "add", name_});
    plug_in_third(name_, pair.a(), "10.77.1.");
    plug_in_third(name_, pair.b(), network_of_b);
    must_ip({"-n", name_, "link", "set", "lo", "up"});
}

ThirdHost::~ThirdHost() {
    try {
        ip({"netns", "delete", name_});
    } catch (const std::runtime_error&) {
        // As for a pair.
    }
}

std::string ThirdHost::address_for_b() const {
    return network_of_b + "1";
}

void enter_network(const std::string& host) {
    const int network = ::open(("/run/netns/" + host).c_str(), O_RDONLY | O_CLOEXEC);
    const bool is_entered = network >= 0 && ::setns(network, CLONE_NEWNET) == 0;
    const int error = errno;
    ::close(network);
    if (!is_entered) throw std::system_error(error, std::generic_category(), host);
}

}  // namespace ddprun::test
