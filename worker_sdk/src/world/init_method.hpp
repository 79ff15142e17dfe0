// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// Where the ranks of a world meet, as a person wrote it.
struct InitMethod {
    enum class Kind { environment, tcp, file };

    Kind kind = Kind::environment;
    /// As given: for messages.
    std::string text;
    /// tcp: where rank 0 serves the store.
    Endpoint endpoint;
    /// file: where rank 0 writes where it does.
    std::string path;
    std::optional<int> rank;
    std::optional<int> world_size;
};

/// Reads `env://`, `tcp://HOST:PORT` and `file:///PATH`, the last two with `?rank=R&world_size=W`
/// or a part of that. Throws UsageError, which says what is accepted.
InitMethod parse_init_method(std::string_view text);

}  // namespace ddprun
