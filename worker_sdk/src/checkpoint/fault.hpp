// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"

namespace ddprun::checkpoint {

/// Why bytes are not a checkpoint.
enum class Fault {
    not_a_checkpoint = 1,
    cut_short,
    damaged,
    later_version,
    malformed,
    misnamed,
};

error_code make_error_code(Fault fault);

}  // namespace ddprun::checkpoint

template <>
struct boost::system::is_error_code_enum<ddprun::checkpoint::Fault> : std::true_type {};
