// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ddprun::coordinator {

/// Counts the jobs that a server keeps and the nodes of each tenant, so that no single address and
/// no tenant uses up all of them. `objection_to` judges and changes nothing; the others record.
class JobQuotas {
public:
    struct Owner {
        /// `Connected::peer_network` of the node that began the job.
        std::string network;
        /// Empty: the server has no tenants.
        std::string tenant;
    };

    explicit JobQuotas(std::size_t most_nodes_of_tenant)
        : most_nodes_of_tenant_(most_nodes_of_tenant) {}

    enum class Request : std::uint8_t {
        node,
        job,  ///< with its first node
    };

    /// Why the server keeps no more of this owner; empty: it does.
    std::string objection_to(const Owner& owner, Request request) const;
    void add(const Owner& owner);
    /// Requires: it was added, and its nodes are counted no longer.
    void remove(const Owner& owner);
    /// A job of this tenant had so many nodes, and has so many now.
    void count_nodes(const std::string& tenant, std::size_t before, std::size_t now);
    void clear();

private:
    std::size_t most_nodes_of_tenant_;
    std::size_t size_ = 0;
    std::map<std::string, std::size_t> of_network_;
    std::map<std::string, std::size_t> of_tenant_;
    std::map<std::string, std::size_t> nodes_of_tenant_;
};

}  // namespace ddprun::coordinator
