// SPDX-License-Identifier: Apache-2.0
// Any bytes from the other end of a tunnel, in pieces of several sizes: an end holds no more than
// its bounds, however it reacts to received frames; an end that does not react gets the same
// results for any split.
#include "rendezvous/tunnel/tunnel.hpp"

#include "rendezvous/base/machine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ddprun;
using tunnel::Tunnel;

const tunnel::TunnelBounds bounds{8, 96 * 1024, 64 * 1024};

struct Seen {
    std::size_t effects = 0;
    std::string data;
    bool is_over = false;

    bool operator==(const Seen&) const = default;
};

/// The time of its reactions determines what the other end may do.
void act(Tunnel& end, const Tunnel::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const Tunnel::Opened& e) {
                if (end.may_send(e.stream) > 5) end.send(e.stream, "reply");
            },
            [&](const Tunnel::Arrived& e) {
                // Streams of odd numbers have slow sockets.
                if (e.stream % 2 == 0) end.took(e.stream, e.data.size());
            },
            [&](const Tunnel::Ended& e) { end.end(e.stream); },
            [&](const Tunnel::Broken& e) { end.reset(e.stream); },
            [](const Tunnel::MaySend&) {},
        },
        effect);
}

enum class Mode : std::uint8_t { listens, acts };

Seen fed(Tunnel::Side side, std::string_view bytes, std::size_t piece, Mode mode) {
    Tunnel end{side, bounds};
    for (std::uint16_t port = 1; side == Tunnel::Side::opens && port <= 3; ++port)
        end.open(port);
    Seen seen;
    std::string held;
    while (!bytes.empty() && !seen.is_over) {
        held += bytes.substr(0, piece);
        bytes.remove_prefix(std::min(piece, bytes.size()));
        std::vector<Tunnel::Effect> effects;
        const auto taken = end.receive(held, effects);
        seen.is_over = !taken;
        if (!taken) break;
        for (const auto& effect : effects) {
            ++seen.effects;
            if (const auto* arrived = std::get_if<Tunnel::Arrived>(&effect))
                seen.data += arrived->data;
            if (mode == Mode::acts) act(end, effect);
        }
        require(*taken <= held.size(), "more was taken than there is");
        held.erase(0, *taken);
        require(
            held.size() < tunnel::header_bytes + tunnel::max_payload_bytes,
            "a whole frame was not taken");
        require(end.held_bytes() <= bounds.held_bytes, "more is held than may be");
        require(end.stream_count() <= bounds.streams, "more streams than may be");
        end.take_output();
    }
    return seen;
}

void check(Tunnel::Side side, std::string_view bytes) {
    const auto whole = fed(side, bytes, bytes.size() + 1, Mode::listens);
    for (const std::size_t piece : {1U, 7U, 4'096U}) {
        fed(side, bytes, piece, Mode::acts);
        const auto split = fed(side, bytes, piece, Mode::listens);
        require(split.is_over == whole.is_over, "the split decides whether the tunnel is over");
        if (!whole.is_over) require(split == whole, "the split changes what arrives");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes{reinterpret_cast<const char*>(data), size};
    check(Tunnel::Side::accepts, bytes);
    check(Tunnel::Side::accepts, std::string{tunnel::preamble} + std::string{bytes});
    check(Tunnel::Side::opens, bytes);
    return 0;
}
