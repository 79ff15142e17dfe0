// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/folder.hpp"

#include "ddprun/error.hpp"
#include "worker_sdk/src/checkpoint/format.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

namespace ddprun {
namespace checkpoint {
namespace {

constexpr std::string_view name_prefix = "checkpoint-";
constexpr std::string_view name_suffix = ".ddp";
constexpr std::string_view shard_mark = ".shard-";

class OpenFile {
public:
    OpenFile(const std::string& path, int flags, mode_t mode = 0)
        : number_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() {
        if (number_ >= 0) ::close(number_);
    }

    bool is_open() const { return number_ >= 0; }
    int number() const { return number_; }

    /// Some file systems report a failed write only here.
    bool close() {
        const int number = number_;
        number_ = -1;
        return ::close(number) == 0;
    }

private:
    int number_;
};

/// Reads fewer bytes than requested only at the end of the file. None on error.
std::optional<std::size_t> read_up_to(int file, std::byte* target, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
        const auto got = ::read(file, target + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

bool write_all(int file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
}

Failure system_failure(const std::string& what) {
    return {system_code(errno), what};
}

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Result<> write_and_flush(const std::string& path, const Checkpoint& checkpoint) {
    OpenFile file{path, O_WRONLY | O_CREAT | O_TRUNC, 0666};
    if (!file.is_open()) return system_failure("create " + path);
    const auto written = encode(checkpoint, [&](std::span<const std::byte> bytes) -> Result<> {
        if (!write_all(file.number(), bytes)) return system_failure("write " + path);
        return {};
    });
    if (!written) return written;
    if (::fsync(file.number()) != 0) return system_failure("flush " + path);
    if (!file.close()) return system_failure("close " + path);
    return {};
}

Result<> flush_folder(const std::string& path) {
    const OpenFile folder{path, O_RDONLY | O_DIRECTORY};
    // Some network file systems cannot flush a folder and return EINVAL; the rename is done
    // nevertheless.
    if (!folder.is_open() || (::fsync(folder.number()) != 0 && errno != EINVAL))
        return system_failure("flush folder " + path);
    return {};
}

std::string in_folder(const std::string& folder, const std::string& name) {
    return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

/// The failure, with the path in front of its context.
Failure at(const std::string& path, const Failure& failure) {
    return {failure.code, failure.context.empty() ? path : path + ": " + failure.context};
}

/// The result of `read_now`. With targets the file is read twice, first to check it, so that
/// targets are written only from a whole file. Both passes read the same open file, even when
/// another file replaces it or it is pruned meanwhile.
template <class Read>
Result<Checkpoint> checked_first(
    const std::string& path, std::span<const TensorTarget> targets, const Read& read_now) {
    auto file = FileReader::open(path);
    if (!file) return file.error();
    if (targets.empty()) return read_now(*file, Destination{});
    auto checked = read_now(*file, Destination{targets, true});
    if (!checked) return checked;
    auto loaded = read_now(*file, Destination{targets, false});
    if (!loaded)
        throw Error(
            "a checkpoint could not be read a second time, and its targets are partly written: " +
            loaded.error().describe());
    return loaded;
}

Result<Checkpoint> load(const std::string& path, std::span<const TensorTarget> targets) {
    return checked_first(path, targets, read);
}

Failure named_wrongly(const std::string& path) {
    return {Fault::misnamed, path};
}

}  // namespace

std::string file_name(Position position) {
    char text[64];
    std::snprintf(
        text,
        sizeof text,
        "checkpoint-%010llu-%012llu.ddp",
        static_cast<unsigned long long>(position.round),
        static_cast<unsigned long long>(position.step));
    return text;
}

std::optional<Position> position_in(std::string_view name) {
    if (!name.starts_with(name_prefix) || !name.ends_with(name_suffix)) return std::nullopt;
    if (name.size() > 64) return std::nullopt;
    name.remove_prefix(name_prefix.size());
    name.remove_suffix(std::min(name.size(), name_suffix.size()));
    Position position;
    const auto* end = name.data() + name.size();
    const auto round = std::from_chars(name.data(), end, position.round);
    if (round.ec != std::errc{} || round.ptr == end || *round.ptr != '-') return std::nullopt;
    const auto step = std::from_chars(round.ptr + 1, end, position.step);
    if (step.ec != std::errc{} || step.ptr != end) return std::nullopt;
    return position;
}

std::string shard_file_name(const ShardName& shard) {
    auto name = file_name(shard.position);
    name.resize(name.size() - name_suffix.size());
    return name + std::string{shard_mark} + std::to_string(shard.index) + "-of-" +
           std::to_string(shard.world) + std::string{name_suffix};
}

std::optional<ShardName> shard_in(std::string_view name) {
    const auto mark = name.find(shard_mark);
    if (mark == std::string_view::npos || !name.ends_with(name_suffix)) return std::nullopt;
    const auto position = position_in(std::string{name.substr(0, mark)} + std::string{name_suffix});
    if (!position) return std::nullopt;
    ShardName shard{*position};
    const auto* const end = name.data() + name.size() - name_suffix.size();
    const auto index = std::from_chars(name.data() + mark + shard_mark.size(), end, shard.index);
    constexpr std::string_view of = "-of-";
    if (index.ec != std::errc{} || !std::string_view(index.ptr, end).starts_with(of))
        return std::nullopt;
    const auto world = std::from_chars(index.ptr + of.size(), end, shard.world);
    const bool is_valid = world.ec == std::errc{} && world.ptr == end &&
                          shard.world <= ShardName::most_ranks && shard.index < shard.world;
    if (!is_valid) return std::nullopt;
    return shard;
}

Result<FileReader> FileReader::open(const std::string& path) {
    FileReader file{path, ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), 0};
    if (file.descriptor_ < 0) return system_failure(path);
    struct stat status {};
    if (::fstat(file.descriptor_, &status) != 0) return system_failure(path);
    if (S_ISDIR(status.st_mode)) return Failure{system_code(EISDIR), path};
    if (!S_ISREG(status.st_mode)) return Failure{Fault::not_a_checkpoint, path};
    file.size_ = static_cast<std::uint64_t>(status.st_size);
    return file;
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

FileReader& FileReader::operator=(FileReader&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    return *this;
}

FileReader::~FileReader() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Result<> FileReader::read(std::span<std::byte> target) {
    const auto done = read_up_to(descriptor_, target.data(), target.size());
    if (!done) return system_failure(path_);
    if (*done < target.size()) return Failure{Fault::cut_short, {}};
    return {};
}

Result<> FileReader::rewind() {
    if (::lseek(descriptor_, 0, SEEK_SET) != 0) return system_failure(path_);
    return {};
}

Result<> write_file(const std::string& path, const Checkpoint& checkpoint) {
    const auto folder = folder_of(path);
    const auto name = path.substr(path.rfind('/') + 1);
    const auto unfinished =
        folder + "/" + std::string{unfinished_prefix} + std::to_string(::getpid()) + "-" + name;
    if (auto written = write_and_flush(unfinished, checkpoint); !written) {
        ::unlink(unfinished.c_str());
        return written;
    }
    if (::rename(unfinished.c_str(), path.c_str()) != 0) {
        auto failure = system_failure("rename to " + path);
        ::unlink(unfinished.c_str());
        return failure;
    }
    return flush_folder(folder);
}

Listing list(const std::string& folder) {
    Listing listing;
    std::error_code error;
    std::filesystem::directory_iterator entries{folder, error};
    if (error == std::errc::no_such_file_or_directory) return listing;
    for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
        const auto name = entries->path().filename().string();
        if (name.starts_with(unfinished_prefix)) listing.unfinished.push_back(name);
        // This library did not write a name such as "checkpoint-1-2.ddp": the file is looked for
        // under the canonical name.
        const auto position = position_in(name);
        if (position && file_name(*position) == name) listing.checkpoints.push_back(*position);
        const auto shard = shard_in(name);
        if (shard && shard_file_name(*shard) == name) listing.shards.push_back(*shard);
    }
    if (error) throw Error("cannot read the checkpoint folder " + folder + ": " + error.message());
    std::sort(listing.checkpoints.begin(), listing.checkpoints.end(), std::greater<>{});
    std::sort(listing.shards.begin(), listing.shards.end(), std::greater<>{});
    return listing;
}

std::string path_in(const std::string& folder, Position position) {
    return in_folder(folder, file_name(position));
}

std::string shard_path_in(const std::string& folder, const ShardName& shard) {
    return in_folder(folder, shard_file_name(shard));
}

Result<Checkpoint> read(FileReader& file, const Destination& destination) {
    if (const auto rewound = file.rewind(); !rewound) return rewound.error();
    auto decoded = decode(
        [&](std::span<std::byte> target) { return file.read(target); }, file.size(), destination);
    // Errors of the file itself already have the path.
    if (!decoded && decoded.error().code.category() == make_error_code(Fault::damaged).category())
        return at(file.path(), decoded.error());
    return decoded;
}

Result<Checkpoint> read_at(FileReader& file, Position position, const Destination& destination) {
    auto found = read(file, destination);
    if (found && Position{found->round, found->step} != position) return named_wrongly(file.path());
    return found;
}

void check_targets(std::span<const TensorTarget> targets) {
    std::set<std::string_view> names;
    for (const auto& target : targets) {
        if (!names.insert(target.name).second)
            throw UsageError("the tensor '" + target.name + "' has two targets");
        if (target.values == nullptr && target.count > 0)
            throw UsageError("the target of the tensor '" + target.name + "' is a null pointer");
    }
}

namespace {

Result<Checkpoint> load_at(
    const std::string& folder, Position position, std::span<const TensorTarget> targets) {
    return checked_first(
        path_in(folder, position), targets, [&](FileReader& file, const Destination& to) {
            return read_at(file, position, to);
        });
}

}  // namespace
}  // namespace checkpoint

namespace {

using checkpoint::Position;

/// Removes old files. A failure to remove one does not end the training run.
void prune(const std::string& folder, const Position& written, std::size_t keep) {
    const auto listing = checkpoint::list(folder);
    std::error_code ignored;
    for (const auto& name : listing.unfinished)
        std::filesystem::remove(checkpoint::in_folder(folder, name), ignored);

    // A file with a newer name than the one just written is left alone: it is neither counted nor
    // removed.
    std::size_t kept = 0;
    for (const auto& position : listing.checkpoints)
        if (position <= written && ++kept > keep)
            std::filesystem::remove(checkpoint::path_in(folder, position), ignored);
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, std::size_t keep)
    : path_(std::move(path)),
      keep_(std::max<std::size_t>(keep, 1)) {
    if (path_.empty()) throw UsageError("the path of the checkpoint folder is empty");
}

std::string CheckpointFolder::save(const Checkpoint& checkpoint) const {
    if (const auto valid = checkpoint::check(checkpoint); !valid)
        throw UsageError("the checkpoint cannot be written: " + valid.error().context);

    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) throw Error("cannot make the checkpoint folder " + path_ + ": " + error.message());

    const Position position{checkpoint.round, checkpoint.step};
    auto path = checkpoint::path_in(path_, position);
    if (const auto written = checkpoint::write_file(path, checkpoint); !written)
        throw Error("the checkpoint was not saved: " + written.error().describe());
    prune(path_, position, keep_);
    return path;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest(
    std::vector<std::string>* passed_over) const {
    return newest(std::vector<TensorTarget>{}, passed_over);
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest(
    const std::vector<TensorTarget>& targets, std::vector<std::string>* passed_over) const {
    checkpoint::check_targets(targets);
    constexpr int most_looks = 10;
    for (int looks = 1;; ++looks) {
        std::optional<Found> whole;
        std::vector<std::string> unusable;
        bool is_pruned = false;
        for (const auto& position : checkpoint::list(path_).checkpoints) {
            auto found = checkpoint::load_at(path_, position, targets);
            if (found) whole = Found{std::move(*found), checkpoint::path_in(path_, position)};
            // A concurrent run with newer files has removed it since it was listed.
            else if (found.error().code == system_code(ENOENT) && looks < most_looks)
                is_pruned = true;
            else if (checkpoint::does_not_fit(found.error()))
                throw Error(found.error().describe());
            else
                unusable.push_back(found.error().describe());
            if (whole || is_pruned) break;
        }
        if (is_pruned) continue;
        if (passed_over != nullptr)
            passed_over->insert(passed_over->end(), unusable.begin(), unusable.end());
        return whole;
    }
}

Checkpoint read_checkpoint(const std::string& path) {
    return read_checkpoint(path, {});
}

Checkpoint read_checkpoint(const std::string& path, const std::vector<TensorTarget>& targets) {
    checkpoint::check_targets(targets);
    auto found = checkpoint::load(path, targets);
    if (!found) throw Error(found.error().describe());
    return std::move(*found);
}

}  // namespace ddprun
