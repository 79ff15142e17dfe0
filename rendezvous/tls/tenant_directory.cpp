// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/tenant_directory.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/tls/file_rules.hpp"
#include "rendezvous/tls/secret_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun::tls {
namespace tenant_directory {
namespace {

constexpr const char* bad_name =
    "has a file whose name is no tenant's: accepted are 64 of A-Z, a-z, 0-9, -, _ and .";

struct Names {
    std::vector<std::string> tenants;
    /// Some file has a name that no tenant may have.
    bool has_other = false;
};

/// Why this folder is not accepted; empty: it is. If another user can rename its files, that user
/// decides which secret belongs to which tenant.
std::string objection_to(const std::string& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return system_code(errno).message();
    auto objection = objection_to_owner(facts);
    return objection.empty() ? objection_to_writers(facts) : objection;
}

/// The names of the files in the folder.
Result<Names> names_in(const std::string& origin, const std::string& path) {
    if (const auto objection = objection_to(path); !objection.empty())
        return wrong_file(origin, path, objection);
    std::error_code ec;
    Names names;
    std::filesystem::directory_iterator entry{path, ec};
    for (; !ec && entry != std::filesystem::directory_iterator{}; entry.increment(ec)) {
        auto name = entry->path().filename().string();
        if (name.starts_with('.')) continue;
        if (!is_tenant_name(name)) {
            names.has_other = true;
            continue;
        }
        if (names.tenants.size() == limits::max_tenants)
            return wrong_file(
                origin, path, "has more than " + std::to_string(limits::max_tenants) + " files");
        names.tenants.push_back(std::move(name));
    }
    if (ec) return wrong_file(origin, path, ec.message());
    return names;
}

}  // namespace
}  // namespace tenant_directory

Result<TenantFolder> read_tenant_folder(const std::string& origin, const std::string& path) {
    const auto names = tenant_directory::names_in(origin, path);
    if (!names) return names.error();
    if (names->has_other) return wrong_file(origin, path, tenant_directory::bad_name);
    if (names->tenants.empty())
        return wrong_file(origin, path, "has no file: each tenant needs one");
    std::vector<Tenant> tenants;
    for (const auto& name : names->tenants) {
        auto source = read_secret_file(origin, path + '/' + name);
        if (!source) return source.error();
        tenants.push_back({name, std::move(*source)});
    }
    auto made = Tenants::of(std::move(tenants));
    if (!made) return wrong_file(origin, path, made.error().context);
    return TenantFolder{origin, path, std::move(*made)};
}

struct TenantDirectory::State {
    explicit State(TenantFolder first)
        : origin(std::move(first.origin)),
          path(std::move(first.path)),
          tenants(std::move(first.tenants)) {}

    void check();
    std::vector<Tenant> read(const std::vector<std::string>& names);
    Result<Tenants> tenants_of(std::vector<Tenant> found);
    const Tenant* tenant_before(const std::string& name) const;
    /// Logs a problem once, for as long as it stays.
    void complain(const std::string& problem);

    const std::string origin;
    const std::string path;
    mutable std::mutex mutex;
    /// The mutex guards them, but only `check` changes them, so it reads them without the mutex.
    Tenants tenants;
    /// The problems of the last check and of this one; used by `check` only.
    std::vector<std::string> before;
    std::vector<std::string> now;
};

void TenantDirectory::State::complain(const std::string& problem) {
    now.push_back(problem);
    if (std::find(before.begin(), before.end(), problem) != before.end()) return;
    log::warning(
        "secret.not_read", {{"reason", problem}, {"effect", "the secrets before it still hold"}});
}

const Tenant* TenantDirectory::State::tenant_before(const std::string& name) const {
    const auto& all = tenants.all();
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const Tenant& tenant) { return tenant.name == name; });
    return found == all.end() ? nullptr : &*found;
}

std::vector<Tenant> TenantDirectory::State::read(const std::vector<std::string>& names) {
    std::vector<Tenant> all;
    for (const auto& name : names) {
        const auto* earlier = tenant_before(name);
        auto source = read_secret_file(origin, path + '/' + name);
        if (source) {
            all.push_back({name, std::move(*source)});
        } else {
            complain(source.error().context);
            if (earlier != nullptr) all.push_back(*earlier);
        }
    }
    return all;
}

/// When two files have one secret, the tenants that stay keep their secrets from before, and new
/// ones do not count. A removed tenant is gone in any case.
Result<Tenants> TenantDirectory::State::tenants_of(std::vector<Tenant> found) {
    std::vector<Tenant> from_before;
    for (const auto& tenant : found)
        if (const auto* earlier = tenant_before(tenant.name)) from_before.push_back(*earlier);
    auto made = Tenants::of(std::move(found));
    if (made) return made;
    complain(wrong_file(origin, path, made.error().context).context);
    return Tenants::of(std::move(from_before));
}

void TenantDirectory::State::check() {
    before = std::exchange(now, {});
    const auto names = tenant_directory::names_in(origin, path);
    if (!names) return complain(names.error().context);
    if (names->has_other) complain(wrong_file(origin, path, tenant_directory::bad_name).context);
    auto found = read(names->tenants);
    std::sort(found.begin(), found.end(), [](const Tenant& a, const Tenant& b) {
        return a.name < b.name;
    });
    if (found == tenants.all()) return;
    auto made = tenants_of(std::move(found));
    if (!made || made->all() == tenants.all()) return;
    {
        const std::lock_guard lock(mutex);
        tenants = std::move(*made);
    }
    log::info("security.tenants_changed", {{"count", tenants.all().size()}, {"folder", path}});
}

TenantDirectory::TenantDirectory(TenantFolder folder, Duration interval)
    : state_(std::make_shared<State>(std::move(folder))),
      watch_([state = state_] { state->check(); }, interval) {}

std::optional<Tenants::Found> TenantDirectory::find_control_key(std::string_view identity) const {
    const std::lock_guard lock(state_->mutex);
    return state_->tenants.find_control_key(identity);
}

std::optional<std::string> TenantDirectory::find_tenant_of_token(std::string_view token) const {
    const std::lock_guard lock(state_->mutex);
    return state_->tenants.find_tenant_of_token(token);
}

}  // namespace ddprun::tls
