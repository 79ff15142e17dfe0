// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/tls/file_watch.hpp"
#include "rendezvous/tls/tenants.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

/// A folder with a file for each tenant: the file's name is the tenant's, the content and the rules
/// are those of a secret file (docs/secrets.md). Shells.
namespace ddprun::tls {

/// A folder that was read whole.
struct TenantFolder {
    std::string origin;  ///< for messages: "--secret-dir"
    std::string path;
    Tenants tenants;
};

/// Names that begin with a dot are left out, since Kubernetes has its own files under such names.
/// Every other file must be a tenant's; there must be one at least, and at most
/// `limits::max_tenants`. The context of a failure is "ORIGIN: 'PATH': what is wrong".
Result<TenantFolder> read_tenant_folder(const std::string& origin, const std::string& path);

/// The tenants that are valid now. The folder and its files are read again once each interval. A
/// new file adds a tenant, and a removed file removes its tenant. If a file cannot be read, its
/// tenant's earlier secrets stay valid; if the folder cannot be read, all tenants do; and
/// `secret.not_read` is logged once. May be used from any thread. Requires: `check_openssl`
/// succeeded.
class TenantDirectory {
public:
    explicit TenantDirectory(TenantFolder folder, Duration interval = std::chrono::seconds{1});

    std::optional<Tenants::Found> find_control_key(std::string_view identity) const;
    std::optional<std::string> find_tenant_of_token(std::string_view token) const;

private:
    struct State;

    /// Shared with a check that may outlast this object.
    std::shared_ptr<State> state_;
    FileWatch watch_;
};

}  // namespace ddprun::tls
