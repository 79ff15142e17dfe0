// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/endpoint.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// The rendezvous of a world's ranks, as given by the user.
struct InitMethod {
    enum class Kind { environment, tcp, file };

    Kind kind = Kind::environment;
    /// The text as given, for messages.
    std::string text;
    /// tcp: the address at which rank 0 serves the store.
    Endpoint endpoint;
    /// file: the file into which rank 0 writes that address.
    std::string path;
    std::optional<int> rank;
    std::optional<int> world_size;
};

/// Reads `env://`, `tcp://HOST:PORT` and `file:///PATH`, the last two optionally with
/// `?rank=R&world_size=W` or one of these. Throws UsageError, which lists the accepted forms.
InitMethod parse_init_method(std::string_view text);

}  // namespace ddprun
