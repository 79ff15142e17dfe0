// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/options.hpp"
#include "launcher/grammar/rdzv_conf.hpp"
#include "rendezvous/base/result.hpp"

#include <optional>
#include <string>

namespace ddprun::launcher {

/// How etcd is reached and as which user, by options and variables. Files are read later.
struct EtcdAccessChoice {
    struct File {
        /// For messages: "--rdzv-conf cacert".
        std::string origin;
        std::string path;
    };

    bool is_encrypted = false;
    /// None: the machine's list of authorities is used.
    std::optional<File> authorities;
    std::optional<File> own;
    std::optional<File> key;
    /// Empty: none.
    std::string user;
    /// If there is a user, one of these two is set.
    std::optional<File> password_file;
    std::string password;
};

inline const std::string etcd_password_variable = "DDPRUN_ETCD_PASSWORD";

/// `is_encrypted`: the endpoint or `protocol` specifies https.
Result<EtcdAccessChoice> choose_etcd_access(
    const RdzvConf& conf,
    const std::string& conf_origin,
    const Environment& environment,
    bool is_encrypted);

}  // namespace ddprun::launcher
