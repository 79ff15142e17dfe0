// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/shared_text.hpp"

#include "rendezvous/base/limits.hpp"

namespace ddprun::wire {

struct SharedText::Block {
    Block(std::string text, Meter to) : bytes(std::move(text)), meter(std::move(to)) { count(); }
    ~Block() { *meter -= counted; }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    void append(std::string_view more) {
        if (bytes.size() + more.size() > bytes.capacity()) {
            // By a quarter instead of twice: this may be the biggest thing in memory.
            std::string grown;
            grown.reserve((bytes.size() + more.size()) / 4 * 5);
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

SharedText::SharedText(std::string bytes, const Meter& meter) {
    const auto size = bytes.size();
    if (size < limits::least_shared_bytes)
        bytes_ = std::move(bytes);
    else
        bytes_ = Shared{std::make_shared<Block>(std::move(bytes), meter), size};
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
    std::string all{view()};
    all.append(bytes);
    *this = SharedText(std::move(all), meter);
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
    return std::string{shared_view()};
}

}  // namespace ddprun::wire
