// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/grammar/options.hpp"
#include "launcher/resolve/etcd_options.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/witness/engine_access.hpp"

namespace ddprun::launcher {

/// Reads certificates, key and password from their files. On error the code is EINVAL and the
/// context is the message to show.
Result<witness::EngineAccess> load_etcd_access(
    const EtcdAccessChoice& choice, const Environment& environment);

/// Whether `load_etcd_access` reads files, which may change later.
inline bool has_files(const EtcdAccessChoice& choice) {
    return choice.is_encrypted || choice.password_file;
}

}  // namespace ddprun::launcher
