// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/part_counts.hpp"

#include <algorithm>
#include <string>

namespace ddprun::groups {

namespace {

/// The numbers of all ranks: for each rank its type, then what it sends to each rank and what it
/// receives from each. In an all_gather_v all ranks list the same counts in the second half.
class Table {
public:
    Table(const std::vector<std::int64_t>& all, int world_size)
        : all_(all),
          ranks_(static_cast<std::size_t>(world_size)) {}

    std::int64_t type(std::size_t rank) const { return row(rank)[0]; }
    std::int64_t sent(std::size_t from, std::size_t to) const { return row(from)[1 + to]; }
    std::int64_t received(std::size_t to, std::size_t from) const {
        return row(to)[1 + ranks_ + from];
    }

private:
    const std::int64_t* row(std::size_t rank) const {
        return all_.data() + rank * (1 + 2 * ranks_);
    }

    const std::vector<std::int64_t>& all_;
    std::size_t ranks_;
};

std::string rank_at(std::size_t rank, const Collective& collective) {
    return text_of({static_cast<int>(rank)}) + " is at " + describe(collective) + ", ";
}

}  // namespace

std::vector<std::int64_t> counts_to_compare(const Collective& collective, int world_size) {
    const auto& counts = *collective.counts;
    const auto ranks = static_cast<std::size_t>(world_size);
    std::vector<std::int64_t> numbers{static_cast<std::int64_t>(collective.type)};
    for (std::size_t to = 0; to < ranks; ++to) {
        const auto count = counts.sent.size() == 1 ? counts.sent.front() : counts.sent[to];
        numbers.push_back(static_cast<std::int64_t>(count));
    }
    for (const auto count : counts.received)
        numbers.push_back(static_cast<std::int64_t>(count));
    return numbers;
}

Outcome mismatch_of_counts(
    const Collective& collective, const std::vector<std::int64_t>& all, int world_size) {
    const Table table(all, world_size);
    const auto ranks = static_cast<std::size_t>(world_size);
    for (std::size_t from = 0; from < ranks; ++from)
        for (std::size_t to = 0; to < ranks; ++to) {
            const auto sent = table.sent(from, to);
            const auto received = table.received(to, from);
            if (sent == received && table.type(from) == table.type(to)) continue;
            const auto elements = [&](std::int64_t count, std::size_t rank) {
                const auto type = static_cast<ElementType>(table.type(rank));
                return std::to_string(count) + " " + name_of(type);
            };
            return mismatch_between(
                rank_at(from, collective) + "with " + elements(sent, from) + " for rank " +
                    std::to_string(to),
                rank_at(to, collective) + "with room for " + elements(received, to) +
                    " from rank " + std::to_string(from));
        }
    return {};
}

std::size_t largest_part(const std::vector<std::int64_t>& all, int world_size) {
    const Table table(all, world_size);
    const auto ranks = static_cast<std::size_t>(world_size);
    std::int64_t largest = 0;
    for (std::size_t from = 0; from < ranks; ++from)
        for (std::size_t to = 0; to < ranks; ++to)
            largest = std::max(largest, table.sent(from, to));
    return static_cast<std::size_t>(largest);
}

std::vector<std::size_t> part_starts(const std::vector<std::size_t>& counts) {
    std::vector<std::size_t> starts;
    std::size_t start = 0;
    for (const auto count : counts) {
        starts.push_back(start);
        start += count;
    }
    return starts;
}

}  // namespace ddprun::groups
