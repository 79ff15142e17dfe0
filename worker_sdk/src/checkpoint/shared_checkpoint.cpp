// SPDX-License-Identifier: Apache-2.0
#include "ddprun/shared_checkpoint.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/checkpoint/folder.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <utility>

namespace ddprun {
namespace {

using checkpoint::Position;

/// How many bytes of a file one collective carries.
constexpr std::size_t piece_bytes = std::size_t{64} << 20;

/// What a rank offers: its newest file not known to be damaged.
struct Offer {
    enum class Kind : std::int64_t { nothing, file, failure };

    Kind kind = Kind::nothing;
    Position position;
    int rank = 0;
};

std::vector<Offer> gather(const ProcessGroup& group, const Offer& mine) {
    constexpr std::size_t width = 3;
    const std::array<std::int64_t, width> own{
        static_cast<std::int64_t>(mine.kind),
        static_cast<std::int64_t>(mine.position.round),
        static_cast<std::int64_t>(mine.position.step)};
    std::vector<std::int64_t> all(width * static_cast<std::size_t>(group.size()));
    group.all_gather(own.data(), all.data(), width).wait();

    std::vector<Offer> offers;
    for (int rank = 0; rank < group.size(); ++rank) {
        const auto* at = all.data() + width * static_cast<std::size_t>(rank);
        offers.push_back(
            {static_cast<Offer::Kind>(at[0]),
             {static_cast<std::uint64_t>(at[1]), static_cast<std::uint64_t>(at[2])},
             rank});
    }
    return offers;
}

/// The first rank that has the newest; null when no rank has any.
const Offer* best_of(const std::vector<Offer>& offers) {
    const Offer* best = nullptr;
    for (const auto& offer : offers)
        if (offer.kind == Offer::Kind::file && (best == nullptr || offer.position > best->position))
            best = &offer;
    return best;
}

/// Every rank gets the bytes of `root`; none when it has none.
std::vector<std::byte> send(const ProcessGroup& group, std::vector<std::byte> bytes, int root) {
    auto size = static_cast<std::int64_t>(bytes.size());
    group.broadcast(&size, 1, root).wait();
    bytes.resize(static_cast<std::size_t>(size));
    for (std::size_t at = 0; at < bytes.size(); at += piece_bytes)
        group.broadcast(bytes.data() + at, std::min(piece_bytes, bytes.size() - at), root).wait();
    return bytes;
}

/// Throws on every rank the error of the lowest rank that has one.
void throw_first_failure(
    const ProcessGroup& group, const std::vector<Offer>& offers, std::string mine) {
    const auto found = std::find_if(offers.begin(), offers.end(), [](const Offer& offer) {
        return offer.kind == Offer::Kind::failure;
    });
    if (found == offers.end()) return;
    std::vector<std::byte> bytes(mine.size());
    std::transform(mine.begin(), mine.end(), bytes.begin(), [](char c) { return std::byte(c); });
    const auto sent = send(group, std::move(bytes), found->rank);
    std::string text(sent.size(), '\0');
    std::transform(sent.begin(), sent.end(), text.begin(), [](std::byte b) { return char(b); });
    throw Error("rank " + std::to_string(found->rank) + ": " + text);
}

}  // namespace

std::optional<CheckpointFolder::Found> load_newest(
    const CheckpointFolder& folder,
    const ProcessGroup& group,
    std::vector<std::string>* passed_over) {
    std::deque<Position> mine;
    std::string failure;
    try {
        const auto listed = checkpoint::list(folder.path()).checkpoints;
        mine.assign(listed.begin(), listed.end());
    } catch (const Error& error) {
        failure = error.what();
    }

    for (;;) {
        Offer own;
        if (!mine.empty()) own = {Offer::Kind::file, mine.front(), group.rank()};
        if (!failure.empty()) own.kind = Offer::Kind::failure;
        const auto offers = gather(group, own);
        throw_first_failure(group, offers, failure);
        const auto* best = best_of(offers);
        if (best == nullptr) return std::nullopt;

        std::vector<std::byte> bytes;
        if (best->rank == group.rank()) {
            auto whole = checkpoint::read_whole(folder.path(), best->position);
            if (whole)
                bytes = std::move(*whole);
            else if (passed_over != nullptr)
                passed_over->push_back(whole.error().describe());
            mine.pop_front();  // if it is damaged, what comes next
        }
        bytes = send(group, std::move(bytes), best->rank);
        if (bytes.empty()) continue;
        auto decoded = checkpoint::decode(bytes);
        if (!decoded)
            throw Error(
                "a checkpoint was damaged on its way from rank " + std::to_string(best->rank) +
                ": " + decoded.error().describe());
        return CheckpointFolder::Found{
            std::move(*decoded), checkpoint::path_in(folder.path(), best->position)};
    }
}

}  // namespace ddprun
