// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/random.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

namespace ddprun {
namespace {

/// std::random_device takes each word from the processor's own source, which in a virtual machine
/// may need 20 µs.
template <std::size_t Count>
std::array<std::uint32_t, Count> system_words() {
    std::array<std::uint32_t, Count> words{};
    if (::getentropy(words.data(), sizeof words) == 0) return words;
    // The system call failed, for instance because a sandbox refuses it.
    std::random_device device;
    std::generate(words.begin(), words.end(), [&] { return device(); });
    return words;
}

}  // namespace

Nonce make_nonce(Random& random) {
    std::array<std::uint8_t, 16> bytes{};
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
    return Nonce{bytes};
}

Nonce unguessable_nonce() {
    const auto words = system_words<4>();
    std::array<std::uint8_t, 16> bytes{};
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return Nonce{bytes};
}

Random seeded_by_the_system() {
    const auto words = system_words<6>();
    std::seed_seq seeds(words.begin(), words.end());
    return Random{seeds};
}

}  // namespace ddprun
