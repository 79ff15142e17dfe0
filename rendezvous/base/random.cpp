// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/random.hpp"

#include <algorithm>

namespace ddprun {

Nonce make_nonce(Random& random) {
    std::array<std::uint8_t, 16> bytes{};
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
    return Nonce{bytes};
}

Nonce unguessable_nonce() {
    std::random_device device;
    std::array<std::uint8_t, 16> bytes{};
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(device()); });
    return Nonce{bytes};
}

Random seeded_by_the_system() {
    std::random_device device;
    std::seed_seq seeds{device(), device(), device(), device(), device(), device()};
    return Random{seeds};
}

}  // namespace ddprun
