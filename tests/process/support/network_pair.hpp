// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::test {

/// Two hosts on one machine: network namespaces connected by a cable, removed at the end of the
/// scope. Programs run in one through Running::Options::network_namespace.
class NetworkPair {
public:
    /// Empty if it can be created; else the reason for a skip (it needs root).
    static std::string why_not();

    enum class Family { v4, v6 };
    explicit NetworkPair(Family family = Family::v4);
    ~NetworkPair();
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
    Host a_;
    Host b_;
};

}  // namespace ddprun::test
