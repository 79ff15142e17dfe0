// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

/// Parts of networks that tests make on one machine, with the program `ip`.
namespace ddprun::test {

/// Runs `ip`; throws if it fails.
void must_ip(std::initializer_list<std::string> arguments);

/// A host without a cable, of which the loopback alone is up; removed at the end of the scope, with
/// its ends of cables.
class NetworkNamespace {
public:
    /// Empty if one can be created; else the reason for a skip (it needs root).
    static std::string why_not();

    /// `ddpROLEPID`: a role may be used once at a time. An interface can have the same name, which
    /// holds 15 characters.
    explicit NetworkNamespace(const std::string& role);
    ~NetworkNamespace();
    NetworkNamespace(NetworkNamespace&& other) noexcept;
    NetworkNamespace& operator=(NetworkNamespace&&) = delete;

    const std::string& name() const { return name_; }

private:
    std::string name_;
};

struct CableEnd {
    std::string host;
    std::string interface;
};
/// Both ends are created inside, so that nothing appears in the machine's own namespace. They are
/// down.
void lay_cable(const CableEnd& one, const CableEnd& other);
/// `address` has the length of its prefix.
void plug_in(const CableEnd& end, const std::string& address);

void set_link(const CableEnd& end, const std::string& state);

}  // namespace ddprun::test
