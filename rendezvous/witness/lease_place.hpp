// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <string>

namespace ddprun::witness::kubernetes {

/// Which Lease keeps the record of an election, and where.
struct LeasePlace {
    Endpoint server;
    /// Empty: the one of the pod, which is read from its service account's folder.
    std::string space;
    std::string name;
    bool operator==(const LeasePlace&) const = default;
};

/// "NAMESPACE/NAME".
inline std::string describe(const LeasePlace& place) {
    return place.space.empty() ? place.name : place.space + "/" + place.name;
}

}  // namespace ddprun::witness::kubernetes
