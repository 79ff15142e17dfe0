// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace ddprun::coordinator {

/// The jobs that a caller may see. It has no default value: a scope that was left out would show
/// one tenant the jobs of another.
class Scope {
public:
    /// Of a server without tenants, or for the user of the server itself.
    static Scope everything() { return Scope{std::nullopt}; }
    static Scope of_tenant(std::string tenant) { return Scope{std::move(tenant)}; }

    /// The jobs of this tenant, if all may be seen; a scope of one tenant stays as it is.
    Scope narrowed_to(std::string tenant) const {
        return tenant_ ? *this : of_tenant(std::move(tenant));
    }
    bool includes(const std::string& tenant) const { return !tenant_ || *tenant_ == tenant; }
    /// None: everything.
    const std::optional<std::string>& tenant() const { return tenant_; }

    bool operator==(const Scope&) const = default;

private:
    explicit Scope(std::optional<std::string> tenant) : tenant_(std::move(tenant)) {}

    std::optional<std::string> tenant_;
};

}  // namespace ddprun::coordinator
