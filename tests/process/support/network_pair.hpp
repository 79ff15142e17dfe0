// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/support/network_namespace.hpp"

#include <future>
#include <string>

namespace ddprun::test {

/// Two hosts on one machine: network namespaces connected by a cable, removed at the end of the
/// scope. Programs run in one through Running::Options::network_namespace.
class NetworkPair {
public:
    static std::string why_not() { return NetworkNamespace::why_not(); }

    enum class Family { v4, v6 };
    explicit NetworkPair(Family family = Family::v4);
    NetworkPair(const NetworkPair&) = delete;
    NetworkPair& operator=(const NetworkPair&) = delete;

    struct Host {
        std::string name;
        std::string address;
    };
    const Host& a() const { return a_; }
    const Host& b() const { return b_; }

    /// Pulls the cable, and plugs it in again.
    void cut() const;
    void heal() const;

private:
    NetworkNamespace namespace_a_{"a"};
    NetworkNamespace namespace_b_{"b"};
    Host a_;
    Host b_;
};

/// Another host, with a cable to each of the two, from which it can connect to their addresses.
/// IPv4 only. It must be removed before the pair.
class ThirdHost {
public:
    explicit ThirdHost(const NetworkPair& pair);
    ThirdHost(const ThirdHost&) = delete;
    ThirdHost& operator=(const ThirdHost&) = delete;

    const std::string& name() const { return namespace_.name(); }
    /// Its address on the cable to host b.
    std::string address_for_b() const;

private:
    NetworkNamespace namespace_{"c"};
};

/// Moves the calling thread into the network of this host.
void enter_network(const std::string& host);

/// Runs `work` on another thread in the network of this host, where the sockets that it opens stay.
template <class Work>
auto in_network(const std::string& host, Work work) {
    return std::async(
               std::launch::async,
               [&] {
                   enter_network(host);
                   return work();
               })
        .get();
}

}  // namespace ddprun::test
