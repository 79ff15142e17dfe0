// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/trouble.hpp"

#include "ddprun/error.hpp"

namespace ddprun::groups {

void throw_trouble(const Trouble& trouble) {
    switch (trouble.kind) {
        case Trouble::Kind::peer_lost: throw PeerLost(trouble.text);
        case Trouble::Kind::timeout: throw Timeout(trouble.text);
        case Trouble::Kind::mismatch: throw Mismatch(trouble.text);
        case Trouble::Kind::usage: throw UsageError(trouble.text);
        case Trouble::Kind::other: break;
    }
    throw Error(trouble.text);
}

}  // namespace ddprun::groups
