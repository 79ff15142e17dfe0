// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/tenants.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace ddprun::tls {
namespace {

constexpr std::size_t most_name_bytes = 64;
constexpr std::string_view name_characters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

}  // namespace

bool is_tenant_name(std::string_view name) {
    return !name.empty() && name.size() <= most_name_bytes && name.front() != '.' &&
           name.find_first_not_of(name_characters) == std::string_view::npos;
}

Result<Tenants> Tenants::of(std::vector<Tenant> tenants) {
    std::sort(tenants.begin(), tenants.end(), [](const Tenant& a, const Tenant& b) {
        return a.name < b.name;
    });
    Tenants result;
    for (const auto& tenant : tenants) {
        for (const auto& secret : tenant.source.secrets) {
            auto key = control_key(secret);
            auto identity = key.identity;
            const auto [found, is_new] = result.by_identity_.emplace(
                std::move(identity), Found{tenant.name, std::move(key)});
            if (!is_new)
                return Failure{
                    system_code(EINVAL),
                    "'" + found->second.tenant + "' and '" + tenant.name +
                        "' have the same secret"};
            result.tokens_.emplace_back(page_token(secret), tenant.name);
        }
    }
    result.tenants_ = std::move(tenants);
    return result;
}

std::optional<Tenants::Found> Tenants::find_control_key(std::string_view identity) const {
    const auto found = by_identity_.find(identity);
    return found == by_identity_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<std::string> Tenants::find_tenant_of_token(std::string_view token) const {
    for (const auto& [valid, tenant] : tokens_)
        if (are_equal_tokens(valid, token)) return tenant;
    return std::nullopt;
}

}  // namespace ddprun::tls
