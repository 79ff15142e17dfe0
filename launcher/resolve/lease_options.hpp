// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/env_defaults.hpp"
#include "launcher/grammar/options.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/lease_place.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Where each container of a pod has its service account: the files `token`, `ca.crt` and
/// `namespace`.
inline const std::string default_service_account = "/var/run/secrets/kubernetes.io/serviceaccount";

/// An RFC 1123 label, as the name of a namespace.
bool is_label(std::string_view text);

/// The Lease of --rdzv-endpoint=[NAMESPACE/]NAME, at the API server that the pod's variables name.
Result<witness::kubernetes::LeasePlace> choose_lease(
    const Given& backend, const std::optional<Given>& endpoint, const Environment& environment);

}  // namespace ddprun::launcher
