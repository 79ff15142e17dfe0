// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/host/segment.hpp"

#include "worker_sdk/src/sanitizers.hpp"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

namespace ddprun::groups {

/// The first page: the number of the rank whose error ended the group.
struct Segment::Head {
    /// The rank's number + 1; 0 without an error.
    std::atomic<std::uint32_t> failed_by;
};

/// A page for each rank: its error. It is complete before the rank's number is written into the
/// head, and never changes afterwards, so no rank ever reads half of it, even when the writer is
/// killed.
struct Segment::Note {
    std::int32_t kind;
    std::int32_t rank_count;
    std::array<std::int32_t, 256> ranks;
    std::array<char, 1024> text;
    std::array<char, 512> one_side;
    std::array<char, 512> other_side;
};

namespace {

constexpr std::size_t segment_page = 4096;
/// A process has 128 TiB of addresses, and untouched pages cost only addresses.
constexpr std::size_t most_arena_bytes =
    is_sanitized ? std::size_t{1} << 30 : std::size_t{64} << 30;
constexpr std::size_t most_bytes_of_all_arenas = std::size_t{4} << 40;

constexpr std::size_t whole_pages(std::size_t bytes) {
    return (bytes + segment_page - 1) / segment_page * segment_page;
}

constexpr std::size_t seat_stride = whole_pages(sizeof(Seat));
constexpr std::size_t channel_stride = whole_pages(sizeof(Channel));
constexpr std::size_t stages_of_a_rank = 2 * Segment::stage_bytes;

std::size_t seats_start(std::size_t ranks) {
    return segment_page + ranks * segment_page;
}
std::size_t stages_start(std::size_t ranks) {
    return seats_start(ranks) + ranks * seat_stride;
}
std::size_t channels_start(std::size_t ranks) {
    return stages_start(ranks) + ranks * stages_of_a_rank;
}
std::size_t arenas_start(std::size_t ranks) {
    return channels_start(ranks) + ranks * ranks * channel_stride;
}

/// A limit on address space or file size rules out a huge arena, even if it stays empty.
std::size_t arena_bytes_here(std::size_t ranks) {
    for (const auto resource : {RLIMIT_AS, RLIMIT_FSIZE}) {
        rlimit limit{};
        if (::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return 0;
    }
    return std::min(
        most_arena_bytes, most_bytes_of_all_arenas / ranks / segment_page * segment_page);
}

GroupError segment_failure(const std::string& what) {
    return {GroupError::Kind::other, what + ": " + ::strerror(errno)};
}

template <std::size_t N>
void put_text(std::array<char, N>& place, const std::string& text) {
    const auto length = std::min(text.size(), N - 1);
    ::memcpy(place.data(), text.data(), length);
    place[length] = '\0';
}

}  // namespace

Posted posted_from(const Collective& collective, std::uint64_t offset) {
    return {
        static_cast<std::uint32_t>(collective.kind),
        static_cast<std::uint32_t>(collective.type),
        static_cast<std::uint32_t>(collective.op),
        collective.root,
        collective.receiver,
        collective.count,
        collective.sequence,
        offset};
}

Collective collective_from(const Posted& posted) {
    Collective collective;
    collective.kind = static_cast<Collective::Kind>(posted.kind);
    collective.type = static_cast<ElementType>(posted.type);
    collective.op = static_cast<Op>(posted.op);
    collective.root = posted.root;
    collective.receiver = posted.receiver;
    collective.count = posted.count;
    collective.sequence = posted.sequence;
    return collective;
}

std::variant<std::shared_ptr<Segment>, GroupError> Segment::create(int ranks) {
    const auto count = static_cast<std::size_t>(ranks);
    const auto bytes = arenas_start(count) + count * arena_bytes_here(count);
    const int descriptor = ::memfd_create("ddprun", MFD_CLOEXEC);
    if (descriptor < 0) return segment_failure("memfd_create");
    if (::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) return open(descriptor, ranks);
    auto error = segment_failure("ftruncate to " + std::to_string(bytes));
    ::close(descriptor);
    return error;
}

std::variant<std::shared_ptr<Segment>, GroupError> Segment::open(int descriptor, int ranks) {
    struct stat about {};
    ::fstat(descriptor, &about);
    const auto bytes = static_cast<std::size_t>(about.st_size);
    if (bytes < arenas_start(static_cast<std::size_t>(ranks))) {
        ::close(descriptor);
        return GroupError{GroupError::Kind::other, "not the shared memory of this group"};
    }
    void* base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    if (base == MAP_FAILED) {
        auto error = segment_failure("mmap of " + std::to_string(bytes) + " bytes");
        ::close(descriptor);
        return error;
    }
    // One rank's core dump need not contain the others' data.
    ::madvise(base, bytes, MADV_DONTDUMP);
    return std::shared_ptr<Segment>(
        new Segment(descriptor, static_cast<std::byte*>(base), bytes, ranks));
}

Segment::Segment(int descriptor, std::byte* base, std::size_t bytes, int ranks)
    : descriptor_(descriptor),
      base_(base),
      bytes_(bytes),
      ranks_(ranks),
      arena_bytes_(
          (bytes - arenas_start(static_cast<std::size_t>(ranks))) /
          static_cast<std::size_t>(ranks) / segment_page * segment_page) {}

Segment::~Segment() {
    close_descriptor();
    ::munmap(base_, bytes_);
}

void Segment::close_descriptor() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Seat& Segment::seat(int rank) const {
    const auto offset = seats_start(static_cast<std::size_t>(ranks_)) +
                        static_cast<std::size_t>(rank) * seat_stride;
    return *reinterpret_cast<Seat*>(base_ + offset);
}

std::byte* Segment::stage(int rank, std::uint64_t turn) const {
    return base_ + stages_start(static_cast<std::size_t>(ranks_)) +
           static_cast<std::size_t>(rank) * stages_of_a_rank + (turn % 2) * stage_bytes;
}

Channel& Segment::channel(int from, int to) const {
    const auto ranks = static_cast<std::size_t>(ranks_);
    const auto number = static_cast<std::size_t>(from) * ranks + static_cast<std::size_t>(to);
    return *reinterpret_cast<Channel*>(base_ + channels_start(ranks) + number * channel_stride);
}

std::byte* Segment::arena(int rank) const {
    return base_ + arenas_start(static_cast<std::size_t>(ranks_)) +
           static_cast<std::size_t>(rank) * arena_bytes_;
}

std::uint64_t Segment::offset_of(const void* data, std::size_t bytes) const {
    const auto start = reinterpret_cast<std::uintptr_t>(data);
    const auto first = reinterpret_cast<std::uintptr_t>(base_);
    if (start < first || start > first + bytes_ || bytes > first + bytes_ - start)
        return Posted::no_offset;
    return start - first;
}

void Segment::fail(int rank, const GroupError& error) {
    const std::lock_guard lock{failing_};
    if (has_failed()) return;
    auto& to = note(rank);
    to.kind = static_cast<std::int32_t>(error.kind);
    const auto count = std::min(error.ranks.size(), to.ranks.size());
    std::copy_n(error.ranks.begin(), count, to.ranks.begin());
    to.rank_count = static_cast<std::int32_t>(count);
    put_text(to.text, error.text);
    put_text(to.one_side, error.one_side);
    put_text(to.other_side, error.other_side);
    std::uint32_t none = 0;
    head().failed_by.compare_exchange_strong(none, static_cast<std::uint32_t>(rank) + 1);
    wake_all();
}

void Segment::wake_all() {
    for (int rank = 0; rank < ranks_; ++rank)
        seat(rank).arrived.wake();
}

bool Segment::has_failed() const {
    return head().failed_by.load(std::memory_order_acquire) != 0;
}

GroupError Segment::error() const {
    const auto& from = note(static_cast<int>(head().failed_by.load()) - 1);
    GroupError error{static_cast<GroupError::Kind>(from.kind), from.text.data()};
    error.ranks.assign(from.ranks.begin(), from.ranks.begin() + from.rank_count);
    error.one_side = from.one_side.data();
    error.other_side = from.other_side.data();
    return error;
}

Segment::Head& Segment::head() const {
    return *reinterpret_cast<Head*>(base_);
}

Segment::Note& Segment::note(int rank) const {
    static_assert(sizeof(Note) <= segment_page, "it has one page");
    return *reinterpret_cast<Note*>(base_ + segment_page * (static_cast<std::size_t>(rank) + 1));
}

}  // namespace ddprun::groups
