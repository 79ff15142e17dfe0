// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// The values of `--rdzv-conf=k=v,k=v`. An absent value was not given.
struct RdzvConf {
    std::optional<Duration> join_timeout;
    std::optional<Duration> last_call_timeout;
    std::optional<Duration> keep_alive_interval;
    std::optional<int> keep_alive_max_attempt;
    std::optional<bool> is_host;
    /// torch's static back end also takes the node rank from here, and its own time limit.
    std::optional<int> rank;
    std::optional<Duration> timeout;
    /// Settings of the etcd back end. Certificates and key are paths.
    std::optional<std::string> protocol;
    std::optional<std::string> cacert;
    std::optional<std::string> cert;
    std::optional<std::string> key;
    std::optional<std::string> etcd_prefix;
    std::optional<std::string> etcd_user;
    std::optional<std::string> etcd_password_file;
    /// The folder of a pod's service account.
    std::optional<std::string> service_account;
    /// One sentence for each key that has no effect here or is unknown. torchrun silently ignores
    /// unknown keys, so a misspelt join_timeout is noticed only ten minutes later.
    std::vector<std::string> warnings;

    bool operator==(const RdzvConf&) const = default;
};

/// Blanks around keys and values are ignored, and so are quotes around the whole list. Of a key
/// given twice the last value counts. On error the context is what was given and what is accepted.
Result<RdzvConf> parse_rdzv_conf(std::string_view text);

}  // namespace ddprun::launcher
