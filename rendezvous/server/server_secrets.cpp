// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/server_secrets.hpp"

#include "rendezvous/base/machine.hpp"

#include <utility>

namespace ddprun::server {

ServerSecrets::ServerSecrets(SecretsOrigin origin) {
    std::visit(
        Overloaded{
            [](std::monostate) {},
            [&](tls::SecretSource& source) { secrets_.emplace<tls::Secrets>(std::move(source)); },
            [&](tls::TenantFolder& folder) {
                secrets_.emplace<tls::TenantDirectory>(std::move(folder));
            },
        },
        origin);
}

std::optional<tls::Tenants::Found> ServerSecrets::find_control_key(
    std::string_view identity) const {
    if (const auto* tenants = std::get_if<tls::TenantDirectory>(&secrets_))
        return tenants->find_control_key(identity);
    const auto* secrets = std::get_if<tls::Secrets>(&secrets_);
    auto key = secrets ? secrets->find_control_key(identity) : std::nullopt;
    if (!key) return std::nullopt;
    return tls::Tenants::Found{{}, std::move(*key)};
}

std::optional<coordinator::Scope> ServerSecrets::scope_of_token(std::string_view token) const {
    if (const auto* tenants = std::get_if<tls::TenantDirectory>(&secrets_)) {
        auto tenant = tenants->find_tenant_of_token(token);
        if (!tenant) return std::nullopt;
        return coordinator::Scope::of_tenant(std::move(*tenant));
    }
    const auto* secrets = std::get_if<tls::Secrets>(&secrets_);
    if (secrets == nullptr || !secrets->accepts_page_token(token)) return std::nullopt;
    return coordinator::Scope::everything();
}

}  // namespace ddprun::server
