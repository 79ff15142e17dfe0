// SPDX-License-Identifier: Apache-2.0
#include "launcher/load_election_access.hpp"

#include "launcher/load_etcd_access.hpp"
#include "launcher/load_service_account.hpp"

#include <utility>
#include <variant>

namespace ddprun::launcher {

Result<> load_election_access(JobSpec& spec, const Environment& environment) {
    auto& election = spec.election.value;
    if (!election || election->has_voters()) return {};
    auto* place = std::get_if<witness::kubernetes::LeasePlace>(&election->engine);
    if (place != nullptr && place->space.empty()) {
        auto space = load_namespace(spec.service_account);
        if (!space) return space.error();
        place->space = std::move(*space);
    }
    std::function<Result<witness::EngineAccess>()> read;
    if (place != nullptr)
        read = [folder = spec.service_account] { return load_service_account(folder); };
    else
        read = [choice = spec.etcd_access, environment] {
            return load_etcd_access(choice, environment);
        };
    auto access = read();
    if (!access) return access.error();
    election->access = std::move(*access);
    if (place != nullptr || has_files(spec.etcd_access)) election->read_access = std::move(read);
    return {};
}

}  // namespace ddprun::launcher
