// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/network_pair.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ddprun::test {
namespace {

/// A cable to one host of a pair. The weak host model of Linux makes the pair's own address of that
/// host reachable through it.
void plug_in_third(
    const std::string& third, const NetworkPair::Host& host, const std::string& network) {
    const auto cable = "x" + host.name;
    lay_cable({third, cable}, {host.name, cable});
    plug_in({third, cable}, network + "1/30");
    plug_in({host.name, cable}, network + "2/30");
    must_ip({"-n", third, "route", "add", host.address + "/32", "via", network + "2"});
}

const std::string network_of_b = "10.77.2.";

}  // namespace

// Each pair has a network of its own inside its namespaces.
NetworkPair::NetworkPair(Family family)
    : a_{namespace_a_.name(), family == Family::v6 ? "fd77::1" : "10.77.0.1"},
      b_{namespace_b_.name(), family == Family::v6 ? "fd77::2" : "10.77.0.2"} {
    lay_cable({a_.name, a_.name}, {b_.name, b_.name});
    for (const auto* host : {&a_, &b_})
        plug_in({host->name, host->name}, host->address + (family == Family::v6 ? "/64" : "/30"));
}

void NetworkPair::cut() const {
    set_link({a_.name, a_.name}, "down");
}

void NetworkPair::heal() const {
    set_link({a_.name, a_.name}, "up");
}

ThirdHost::ThirdHost(const NetworkPair& pair) {
    plug_in_third(name(), pair.a(), "10.77.1.");
    plug_in_third(name(), pair.b(), network_of_b);
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
