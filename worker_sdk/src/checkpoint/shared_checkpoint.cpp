// SPDX-License-Identifier: Apache-2.0
#include "ddprun/shared_checkpoint.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/checkpoint/folder.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"
#include "worker_sdk/src/checkpoint/shared_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>

namespace ddprun {
namespace {

using checkpoint::Position;
using checkpoint::SharedFile;

/// A rank's offer: its newest file not known to be damaged.
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

/// The first rank with the newest checkpoint; null when no rank has any.
const Offer* best_of(const std::vector<Offer>& offers) {
    const Offer* best = nullptr;
    for (const auto& offer : offers)
        if (offer.kind == Offer::Kind::file && (best == nullptr || offer.position > best->position))
            best = &offer;
    return best;
}

/// Throws on every rank the error of the lowest rank that has one.
void throw_first_failure(
    const ProcessGroup& group, const std::vector<Offer>& offers, std::string mine) {
    const auto found = std::find_if(offers.begin(), offers.end(), [](const Offer& offer) {
        return offer.kind == Offer::Kind::failure;
    });
    if (found == offers.end()) return;
    const auto text = checkpoint::send(group, std::move(mine), found->rank);
    throw Error("rank " + std::to_string(found->rank) + ": " + text);
}

/// The file of the best offer and its size. Its rank has found no damage in it.
struct Chosen {
    static constexpr std::int64_t is_damaged = 0;
    static constexpr std::int64_t is_unfit = -1;

    std::optional<checkpoint::FileReader> file{};
    std::int64_t size = is_damaged;
    std::string why{};
};

Chosen choose(
    const std::string& folder, const Position& position, std::span<const TensorTarget> targets) {
    Chosen chosen;
    auto file = checkpoint::FileReader::open(checkpoint::path_in(folder, position));
    if (!file) {
        chosen.why = file.error().describe();
        return chosen;
    }
    const auto checked = checkpoint::read_at(*file, position, {targets, true});
    if (!checked) {
        chosen.why = checked.error().describe();
        if (checkpoint::does_not_fit(checked.error())) chosen.size = Chosen::is_unfit;
    } else if (const auto rewound = file->rewind(); !rewound) {
        chosen.why = rewound.error().describe();
    } else {
        // Uses the file that was checked, even if its name belongs to another file by now.
        chosen.size = static_cast<std::int64_t>(file->size());
        chosen.file.emplace(std::move(*file));
    }
    return chosen;
}

}  // namespace

std::optional<CheckpointFolder::Found> load_newest(
    const CheckpointFolder& folder,
    const ProcessGroup& group,
    std::vector<std::string>* passed_over) {
    return load_newest(folder, group, {}, passed_over);
}

std::optional<CheckpointFolder::Found> load_newest(
    const CheckpointFolder& folder,
    const ProcessGroup& group,
    const std::vector<TensorTarget>& targets,
    std::vector<std::string>* passed_over) {
    checkpoint::check_targets(targets);
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

        Chosen chosen;
        if (best->rank == group.rank()) {
            chosen = choose(folder.path(), best->position, targets);
            if (chosen.size == Chosen::is_damaged && passed_over != nullptr)
                passed_over->push_back(chosen.why);
            mine.pop_front();  // if this file is damaged, the next one is offered
        }
        group.broadcast(&chosen.size, 1, best->rank).wait();
        if (chosen.size == Chosen::is_damaged) continue;
        if (chosen.size == Chosen::is_unfit)
            throw Error(
                "rank " + std::to_string(best->rank) + ": " +
                checkpoint::send(group, std::move(chosen.why), best->rank));
        const auto size = static_cast<std::uint64_t>(chosen.size);
        SharedFile file(group, best->rank, size, chosen.file ? &*chosen.file : nullptr);
        auto decoded = checkpoint::decode(
            [&](std::span<std::byte> target) { return file.read(target); }, size, {targets});
        // The rank that sends the file has checked that it fits its own targets.
        if (!decoded && checkpoint::does_not_fit(decoded.error()))
            throw Error(
                "rank " + std::to_string(group.rank()) + ", with the checkpoint of rank " +
                std::to_string(best->rank) + ": " + decoded.error().describe());
        if (!decoded)
            throw Error(
                "a checkpoint was damaged on its way from rank " + std::to_string(best->rank) +
                ": " + decoded.error().describe());
        return CheckpointFolder::Found{
            std::move(*decoded), checkpoint::path_in(folder.path(), best->position)};
    }
}

}  // namespace ddprun
