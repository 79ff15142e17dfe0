// SPDX-License-Identifier: Apache-2.0
#include "ddprun/sharded_checkpoint.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/checkpoint/folder.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"
#include "worker_sdk/src/checkpoint/shard_sets.hpp"
#include "worker_sdk/src/checkpoint/shared_file.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace ddprun {
namespace {

using checkpoint::PartHeader;
using checkpoint::PartRange;
using checkpoint::Position;
using checkpoint::ShardName;
using checkpoint::ShardSet;
using checkpoint::SharedFile;

/// The key of a text that is the same in all files of a set and different in every save.
constexpr const char* save_key = "ddprun.save";
/// A rank offers at most this many files, its newest.
constexpr std::size_t most_names = 65'536;

/// The error of the lowest rank that has one, on every rank; empty when none has.
std::string first_failure(const ProcessGroup& group, std::string mine) {
    const std::int64_t own = mine.empty() ? 0 : 1;
    std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
    group.all_gather(&own, all.data(), 1).wait();
    const auto found = std::find(all.begin(), all.end(), 1);
    if (found == all.end()) return {};
    const auto rank = static_cast<int>(found - all.begin());
    return "rank " + std::to_string(rank) + ": " + checkpoint::send(group, std::move(mine), rank);
}

void throw_first_failure(const ProcessGroup& group, std::string mine) {
    const auto failure = first_failure(group, std::move(mine));
    if (!failure.empty()) throw Error(failure);
}

/// What rank 0 sends to all ranks before they write.
struct SaveHead {
    std::uint64_t round = 0;
    std::uint64_t step = 0;
    std::uint64_t save = 0;
};

/// Throws UsageError on every rank when rank 0's checkpoint cannot be written.
SaveHead head_from_rank_0(const ProcessGroup& group, const Checkpoint& checkpoint) {
    std::string fault;
    if (group.rank() == 0)
        if (const auto valid = checkpoint::check(checkpoint); !valid) fault = valid.error().context;
    fault = checkpoint::send(group, std::move(fault), 0);
    if (!fault.empty()) throw UsageError("the checkpoint cannot be written: " + fault);
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    std::array<std::uint64_t, 3> numbers{
        checkpoint.round, checkpoint.step, static_cast<std::uint64_t>(now)};
    group.broadcast(numbers.data(), numbers.size(), 0).wait();
    return {numbers[0], numbers[1], numbers[2]};
}

/// The fault of the list of parts; empty: the list is valid.
std::string fault_of(const std::vector<TensorPart>& parts) {
    std::set<std::string> names;
    for (const auto& part : parts) {
        const auto fault = [&](const char* what) { return "tensor '" + part.name + "' " + what; };
        if (!names.insert(part.name).second) return fault("comes twice");
        if (checkpoint::bytes_of(part.type) == 0)
            return fault("is of a type that no checkpoint has");
        if (part.whole_count == 0) return fault("has no values");
        if (part.begin > part.whole_count || part.count > part.whole_count - part.begin)
            return fault("is a part that lies outside its tensor");
        if (part.values == nullptr && part.count > 0) return fault("is a null pointer");
    }
    return {};
}

void add_parts(Checkpoint& checkpoint, const std::vector<TensorPart>& parts) {
    for (const auto& part : parts)
        if (part.count > 0)
            checkpoint.views.push_back(
                {part.name, part.values, part.count, part.type, {part.begin, part.whole_count}});
}

/// Why the file was not written; empty when it was.
std::string written(const std::string& folder, const std::string& path, const Checkpoint& own) {
    if (const auto valid = checkpoint::check(own); !valid)
        return "the checkpoint cannot be written: " + valid.error().context;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return "cannot make the checkpoint folder " + folder + ": " + error.message();
    const auto result = checkpoint::write_file(path, own);
    return result ? "" : "the checkpoint was not saved: " + result.error().describe();
}

/// Removes old and unfinished files. No rank is writing at this time. A failure to remove a file
/// does not end the training run.
void prune(const std::string& folder, const Position& newest, std::size_t keep) {
    checkpoint::Listing listing;
    try {
        listing = checkpoint::list(folder);
    } catch (const Error&) {
        return;
    }
    std::error_code ignored;
    for (const auto& name : listing.unfinished)
        std::filesystem::remove(folder + "/" + name, ignored);
    std::set<Position> kept;
    for (const auto& shard : listing.shards) {
        if (shard.position > newest) continue;
        if (kept.size() < keep) kept.insert(shard.position);
        if (kept.count(shard.position) == 0)
            std::filesystem::remove(checkpoint::shard_path_in(folder, shard), ignored);
    }
}

/// Every rank's files.
std::vector<std::vector<ShardName>> gather(
    const ProcessGroup& group, const std::vector<ShardName>& own) {
    constexpr std::size_t width = 4;
    std::vector<std::uint64_t> numbers;
    for (const auto& name : own)
        numbers.insert(
            numbers.end(), {name.position.round, name.position.step, name.world, name.index});
    const auto own_count = static_cast<std::uint64_t>(numbers.size());
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(group.size()));
    group.all_gather(&own_count, counts.data(), 1).wait();
    const std::vector<std::size_t> sizes(counts.begin(), counts.end());
    std::size_t total = 0;
    for (const auto size : sizes)
        total += size;
    std::vector<std::uint64_t> all(total);
    group.all_gather_v(numbers.data(), all.data(), sizes).wait();

    std::vector<std::vector<ShardName>> by_rank;
    const auto* at = all.data();
    for (const auto size : sizes) {
        by_rank.emplace_back();
        for (const auto* const end = at + size; at != end; at += width)
            by_rank.back().push_back({{at[0], at[1]}, at[2], at[3]});
    }
    return by_rank;
}

Failure unfit(const std::string& name, const std::string& what) {
    return {checkpoint::Fault::unfit, "tensor '" + name + "' " + what};
}

/// Reads the files of one set, on all ranks.
class SetReader {
public:
    enum class Verdict { whole, not_whole };

    SetReader(
        const ProcessGroup& group,
        const std::string& folder,
        const ShardSet& set,
        const std::vector<TensorPart>& parts)
        : group_(group),
          folder_(folder),
          set_(set),
          parts_(parts),
          counts_(parts.size()) {
        for (std::size_t i = 0; i < parts.size(); ++i)
            places_[parts[i].name] = i;
    }

    /// Each rank checks the files it reads. Throws Error on every rank when the set is whole and
    /// does not fit.
    Verdict check(std::vector<std::string>* passed_over) {
        std::string unfit_text;
        std::string damage;
        std::set<std::string> saves;
        for (std::size_t index = 0; index < set_.readers.size(); ++index) {
            if (set_.readers[index] != group_.rank()) continue;
            const auto checked = read(index);
            if (checked)
                saves.insert(checked->texts.count(save_key) ? checked->texts.at(save_key) : "");
            else if (checkpoint::does_not_fit(checked.error()))
                unfit_text = checked.error().describe();
            else
                damage = checked.error().describe();
            if (!damage.empty() && passed_over != nullptr) passed_over->push_back(damage);
            if (!damage.empty()) break;
        }
        if (any(!damage.empty())) return Verdict::not_whole;
        throw_first_failure(group_, unfit_text);
        if (!is_one_save(saves)) {
            if (passed_over != nullptr)
                passed_over->push_back(
                    path_of(0) + ": the files of the set are of different saves");
            return Verdict::not_whole;
        }
        require_all_tensors();
        return Verdict::whole;
    }

    /// Returns rank 0's checkpoint as it was given to `save`, and writes the parts into their
    /// memory.
    Checkpoint load() {
        Checkpoint first;
        std::fill(counts_.begin(), counts_.end(), 0);
        for (std::size_t index = 0; index < set_.readers.size(); ++index) {
            auto loaded = load_file(index);
            if (index == 0) first = std::move(loaded);
        }
        std::string fault;
        for (std::size_t i = 0; i < parts_.size() && fault.empty(); ++i)
            if (counts_[i] != parts_[i].count)
                fault = "elements of tensor '" + parts_[i].name + "' are in no file of the set";
        throw_first_failure(group_, fault);
        first.texts.erase(save_key);
        return first;
    }

private:
    std::string path_of(std::size_t index) const {
        return checkpoint::shard_path_in(folder_, set_.name_of(index));
    }

    bool any(bool mine) const {
        std::int32_t number = mine ? 1 : 0;
        group_.all_reduce(&number, 1, Op::max).wait();
        return number > 0;
    }

    /// Keeps no values, and counts the elements of each tensor.
    Result<Checkpoint> read(std::size_t index) {
        auto file = checkpoint::FileReader::open(path_of(index));
        if (!file) return file.error();
        return checkpoint::read_at(
            *file, set_.position, {{}, true, [this](const auto& part) { return counted(part); }});
    }

    Result<PartRange> counted(const PartHeader& part) {
        const auto place = places_.find(part.name);
        if (place == places_.end()) return PartRange{};
        const auto& expected = parts_[place->second];
        if (part.type != expected.type) return unfit(part.name, "is of another type");
        if (part.part.whole_count != expected.whole_count)
            return unfit(
                part.name,
                "has " + std::to_string(part.part.whole_count) + " values, expected are " +
                    std::to_string(expected.whole_count));
        counts_[place->second] += part.count;
        return PartRange{};
    }

    bool is_one_save(const std::set<std::string>& saves) const {
        std::uint64_t own = 0;
        for (const char character : saves.empty() ? std::string{} : *saves.begin())
            own = own * 31 + static_cast<unsigned char>(character);
        std::array<std::uint64_t, 2> least{saves.empty() ? ~std::uint64_t{0} : own, saves.size()};
        std::array<std::uint64_t, 2> most{saves.empty() ? 0 : own, saves.size()};
        group_.all_reduce(least.data(), least.size(), Op::min).wait();
        group_.all_reduce(most.data(), most.size(), Op::max).wait();
        return most[1] == 1 && least[0] == most[0];
    }

    void require_all_tensors() {
        auto totals = counts_;
        group_.all_reduce(totals.data(), totals.size()).wait();
        for (std::size_t i = 0; i < parts_.size(); ++i)
            if (totals[i] != parts_[i].whole_count)
                throw Error(
                    path_of(0) + " and the other files of the set have " +
                    std::to_string(totals[i]) + " of the " + std::to_string(parts_[i].whole_count) +
                    " values of tensor '" + parts_[i].name +
                    "': the checkpoint does not fit the model");
    }

    /// The range of a file's part that this rank holds.
    Result<PartRange> kept(const PartHeader& part) {
        const auto place = places_.find(part.name);
        if (place == places_.end()) return PartRange{};
        const auto& own = parts_[place->second];
        if (part.type != own.type || part.part.whole_count != own.whole_count)
            return unfit(part.name, "has changed since it was checked");
        const auto begin = std::max(part.part.begin, own.begin);
        const auto end = std::min(part.part.begin + part.count, own.begin + own.count);
        if (begin >= end) return PartRange{};
        counts_[place->second] += end - begin;
        auto* const values = static_cast<std::byte*>(own.values);
        return PartRange{
            begin - part.part.begin,
            end - begin,
            values + (begin - own.begin) * checkpoint::bytes_of(own.type)};
    }

    Checkpoint load_file(std::size_t index) {
        const auto reader = set_.readers[index];
        std::optional<checkpoint::FileReader> file;
        std::string fault;
        if (reader == group_.rank()) {
            auto opened = checkpoint::FileReader::open(path_of(index));
            if (opened)
                file.emplace(std::move(*opened));
            else
                fault = opened.error().describe();
        }
        throw_first_failure(group_, fault);
        auto size = file ? file->size() : 0;
        group_.broadcast(&size, 1, reader).wait();
        SharedFile shared(group_, reader, size, file ? &*file : nullptr);
        const checkpoint::Destination destination{
            {}, false, [this](const auto& part) { return kept(part); }};
        auto decoded = checkpoint::decode(
            [&](std::span<std::byte> target) { return shared.read(target); }, size, destination);
        if (!decoded)
            throw Error(
                "a checkpoint could not be read a second time, and its parts are partly written: " +
                path_of(index) + ", sent by rank " + std::to_string(reader) + ": " +
                decoded.error().describe());
        return std::move(*decoded);
    }

    const ProcessGroup& group_;
    const std::string& folder_;
    const ShardSet& set_;
    const std::vector<TensorPart>& parts_;
    std::map<std::string, std::size_t> places_;  // by name
    /// Element counts by tensor: first those in the files that this rank has checked, later those
    /// that it has loaded.
    std::vector<std::uint64_t> counts_;
};

}  // namespace

ShardedFolder::ShardedFolder(std::string path, std::size_t keep)
    : path_(std::move(path)),
      keep_(std::max<std::size_t>(keep, 1)) {
    if (path_.empty()) throw UsageError("the path of the checkpoint folder is empty");
}

std::string ShardedFolder::save(
    const ProcessGroup& group, Checkpoint checkpoint, const std::vector<TensorPart>& parts) const {
    throw_first_failure(group, fault_of(parts));
    const auto head = head_from_rank_0(group, checkpoint);
    if (group.rank() != 0) checkpoint = {};
    checkpoint.round = head.round;
    checkpoint.step = head.step;
    checkpoint.texts[save_key] = std::to_string(head.save);
    add_parts(checkpoint, parts);

    const Position position{head.round, head.step};
    const auto path = checkpoint::shard_path_in(
        path_,
        ShardName{
            position,
            static_cast<std::uint64_t>(group.size()),
            static_cast<std::uint64_t>(group.rank())});
    throw_first_failure(group, written(path_, path, checkpoint));
    prune(path_, position, keep_);
    group.barrier().wait();  // else another rank's next save could be pruned here
    return path;
}

std::optional<Checkpoint> ShardedFolder::load_newest(
    const ProcessGroup& group,
    const std::vector<TensorPart>& parts,
    std::vector<std::string>* passed_over) const {
    std::vector<ShardName> own;
    auto failure = fault_of(parts);
    try {
        own = checkpoint::list(path_).shards;
    } catch (const Error& error) {
        failure = error.what();
    }
    throw_first_failure(group, failure);
    own.resize(std::min(own.size(), most_names));
    for (const auto& set : checkpoint::complete_sets(gather(group, own))) {
        SetReader reader(group, path_, set, parts);
        if (reader.check(passed_over) == SetReader::Verdict::whole) return reader.load();
    }
    return std::nullopt;
}

}  // namespace ddprun
