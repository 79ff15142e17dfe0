// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/coordinator/scope.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/secret_file.hpp"
#include "rendezvous/tls/tenant_directory.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::server {

/// Where the secrets of a server come from: none, one file or variable, a file for each tenant.
using SecretsOrigin = std::variant<std::monostate, tls::SecretSource, tls::TenantFolder>;

/// The secrets of which a caller must prove one, and the rights that each gives. May be used from
/// any thread.
class ServerSecrets {
public:
    explicit ServerSecrets(SecretsOrigin origin);

    /// False: every caller may join, see and stop every job.
    bool is_required() const { return !std::holds_alternative<std::monostate>(secrets_); }
    /// The key of a caller with this identity, and the tenant to which it then belongs (empty: this
    /// server has no tenants).
    std::optional<tls::Tenants::Found> find_control_key(std::string_view identity) const;
    /// The jobs that a reader with this token may see; none: the token is not valid.
    std::optional<coordinator::Scope> scope_of_token(std::string_view token) const;

private:
    std::variant<std::monostate, tls::Secrets, tls::TenantDirectory> secrets_;
};

}  // namespace ddprun::server
