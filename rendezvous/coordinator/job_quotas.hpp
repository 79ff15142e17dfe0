// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace ddprun::coordinator {

/// Counts the jobs that a server keeps, so that no single address and no tenant uses up all of
/// them. `objection_to` judges and changes nothing; `add` and `remove` record.
class JobQuotas {
public:
    struct Owner {
        /// `Connected::peer_network` of the node that began the job.
        std::string network;
        /// Empty: the server has no tenants.
        std::string tenant;
    };

    /// Why no further job of this owner is kept; empty: it is.
    std::string objection_to(const Owner& owner) const;
    void add(const Owner& owner);
    /// Requires: it was added.
    void remove(const Owner& owner);
    void clear();

private:
    std::size_t size_ = 0;
    std::map<std::string, std::size_t> of_network_;
    std::map<std::string, std::size_t> of_tenant_;
};

}  // namespace ddprun::coordinator
