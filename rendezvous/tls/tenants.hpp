// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/secret.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The tenants of one server: groups of users that do not trust each other, each with secrets of
/// its own. The secret that a caller proves selects its tenant. Pure.
namespace ddprun::tls {

struct Tenant {
    std::string name;
    SecretSource source;

    bool operator==(const Tenant&) const = default;
};

/// At most 64 of A-Z, a-z, 0-9, `-`, `_` and `.`, the first no dot.
bool is_tenant_name(std::string_view name);

class Tenants {
public:
    Tenants() = default;
    /// Fails when two tenants have one secret, since it would not select one of them. The context
    /// names both.
    static Result<Tenants> of(std::vector<Tenant> tenants);

    struct Found {
        std::string tenant;
        Key key;
    };
    /// A key that a node may use towards this server, with its tenant.
    std::optional<Found> find_control_key(std::string_view identity) const;
    /// The tenant that has the secret from which the token was made.
    std::optional<std::string> find_tenant_of_token(std::string_view token) const;

    /// In order of their names.
    const std::vector<Tenant>& all() const { return tenants_; }

private:
    std::vector<Tenant> tenants_;
    std::map<std::string, Found, std::less<>> by_identity_;
    /// Page tokens with their tenants.
    std::vector<std::pair<std::string, std::string>> tokens_;
};

}  // namespace ddprun::tls
