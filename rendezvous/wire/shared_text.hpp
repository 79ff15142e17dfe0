// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ddprun::wire {

/// How many bytes of shared texts there are; every such text made with this meter counts once,
/// however many copies it has, until its last copy is gone.
using Meter = std::shared_ptr<std::size_t>;

/// A value on its way from the store to a client: bytes of its own, or, if they are many, bytes
/// that all copies share; or borrowed ones. Copies belong to one thread.
class SharedText {
public:
    SharedText() = default;
    /// Bytes of its own, which every copy copies.
    SharedText(std::string own) : bytes_(std::move(own)) {}
    SharedText(const char* own) : bytes_(std::string{own}) {}
    /// Shared from `limits::least_shared_bytes` on.
    SharedText(std::string bytes, const Meter& meter);
    /// A copy of a borrowed text has bytes of its own.
    SharedText(const SharedText& other);
    SharedText& operator=(const SharedText& other) { return *this = SharedText(other); }
    SharedText(SharedText&&) = default;
    SharedText& operator=(SharedText&&) = default;

    /// Shows the same bytes without a copy of them, and only while this is as it is, unless they
    /// are shared.
    SharedText borrowed() const;

    /// The other copies stay as they are; no byte of a shared text is copied unless another copy
    /// was added to before.
    void append(std::string_view bytes, const Meter& meter);

    std::string_view view() const {
        if (const auto* own = std::get_if<std::string>(&bytes_)) return *own;
        if (const auto* borrowed = std::get_if<std::string_view>(&bytes_)) return *borrowed;
        return shared_view();
    }
    std::size_t size() const { return view().size(); }
    /// What a meter does not count: the memory of bytes of its own, outside of this object.
    std::size_t own_bytes() const {
        const auto* own = std::get_if<std::string>(&bytes_);
        return own != nullptr ? own->capacity() - std::string{}.capacity() : 0;
    }
    /// What is free again when this is gone: nothing while copies share it.
    std::size_t sole_bytes() const;
    /// The memory that `append` needs for so many bytes, while what it replaces is still there: at
    /// most.
    std::size_t growth_by_append(std::size_t bytes) const;
    bool is_shared() const { return std::holds_alternative<Shared>(bytes_); }

    /// The bytes; not copied where this had its own.
    std::string take() &&;

    class Observer;
    /// Sees these bytes while a copy is alive and they are shared.
    Observer observer() const;

    bool operator==(const SharedText& other) const { return view() == other.view(); }

private:
    struct Block;
    /// The first `size` bytes of a block, which only grows.
    struct Shared {
        std::shared_ptr<Block> block;
        std::size_t size;
    };

    std::string_view shared_view() const;

    std::variant<std::string, Shared, std::string_view> bytes_;
};

class SharedText::Observer {
public:
    std::optional<SharedText> get() const;
    void reset() { block_.reset(); }

private:
    friend class SharedText;

    std::weak_ptr<Block> block_;
    std::size_t size_ = 0;
};

}  // namespace ddprun::wire
