// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/shared_text.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>

namespace ddprun::wire {
namespace {

/// Grows by a quarter instead of doubling, since this may be the biggest object in memory.
std::size_t grown_bytes(std::size_t needed) {
    return needed / 4 * 5;
}

}  // namespace

struct SharedText::Block {
    Block(std::string text, Meter to) : bytes(std::move(text)), meter(std::move(to)) { count(); }
    ~Block() { *meter -= counted; }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    bool has_room_for(std::size_t more) const { return bytes.size() + more <= bytes.capacity(); }

    void append(std::string_view more) {
        if (!has_room_for(more.size())) {
            std::string grown;
            grown.reserve(grown_bytes(bytes.size() + more.size()));
            grown.append(bytes);
            bytes = std::move(grown);
        }
        bytes.append(more);
        count();
    }

    void count() {
        *meter += bytes.capacity() - counted;
        counted = bytes.capacity();
    }

    std::string bytes;
    Meter meter;
    std::size_t counted = 0;
};

SharedText::SharedText(std::string&& bytes, const Meter& meter) {
    const auto size = bytes.size();
    if (size < limits::least_shared_bytes)
        bytes_ = std::move(bytes);
    else
        bytes_ = Shared{std::make_shared<Block>(std::move(bytes), meter), size};
}

SharedText::SharedText(const SharedText& other) {
    if (const auto* shared = std::get_if<Shared>(&other.bytes_))
        bytes_ = *shared;
    else
        bytes_.emplace<std::string>(other.view());
}

SharedText SharedText::borrowed() const {
    SharedText text;
    if (const auto* shared = std::get_if<Shared>(&bytes_))
        text.bytes_ = *shared;
    else
        text.bytes_ = view();
    return text;
}

void SharedText::append(std::string_view bytes, const Meter& meter) {
    if (auto* shared = std::get_if<Shared>(&bytes_);
        shared != nullptr && shared->size == shared->block->bytes.size()) {
        shared->block->append(bytes);
        shared->size += bytes.size();
        return;
    }
    if (auto* own = std::get_if<std::string>(&bytes_);
        own != nullptr && own->size() + bytes.size() < limits::least_shared_bytes) {
        own->append(bytes);
        return;
    }
    std::string all;
    all.reserve(size() + bytes.size());
    all.append(view()).append(bytes);
    *this = SharedText(std::move(all), meter);
}

std::size_t SharedText::growth_by_append(std::size_t bytes) const {
    const auto needed = size() + bytes;
    const auto* shared = std::get_if<Shared>(&bytes_);
    if (shared == nullptr) {
        const auto* own = std::get_if<std::string>(&bytes_);
        if (own == nullptr || needed >= limits::least_shared_bytes) return needed;
        return needed <= own->capacity() ? 0 : std::max(needed, 2 * own->capacity());
    }
    if (shared->size < shared->block->bytes.size()) return needed;
    return shared->block->has_room_for(bytes) ? 0 : grown_bytes(needed);
}

std::size_t SharedText::sole_bytes() const {
    const auto* shared = std::get_if<Shared>(&bytes_);
    if (shared == nullptr) return own_bytes();
    return shared->block.use_count() == 1 ? shared->block->counted : 0;
}

std::string_view SharedText::shared_view() const {
    const auto& shared = std::get<Shared>(bytes_);
    return std::string_view{shared.block->bytes}.substr(0, shared.size);
}

SharedText::Observer SharedText::observer() const {
    Observer observer;
    if (const auto* shared = std::get_if<Shared>(&bytes_)) {
        observer.block_ = shared->block;
        observer.size_ = shared->size;
    }
    return observer;
}

std::optional<SharedText> SharedText::Observer::get() const {
    auto block = block_.lock();
    if (!block) return std::nullopt;
    SharedText text;
    text.bytes_ = Shared{std::move(block), size_};
    return text;
}

std::string SharedText::take() && {
    if (auto* own = std::get_if<std::string>(&bytes_)) return std::move(*own);
    return std::string{view()};
}

}  // namespace ddprun::wire
