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

/// Counts the bytes of shared texts. A text made with this meter counts once, however many copies
/// it has, until its last copy is gone.
using Meter = std::shared_ptr<std::size_t>;

/// A value on its way from the store to a client. A short value has its own bytes; a long one
/// shares its bytes with all copies; a borrowed one refers to the bytes of another value. Copies
/// belong to one thread.
class SharedText {
public:
    SharedText() = default;
    /// Has its own bytes, which are copied with every copy.
    SharedText(std::string own) : bytes_(std::move(own)) {}
    SharedText(const char* own) : bytes_(std::string{own}) {}
    /// Shares its bytes if there are at least `limits::least_shared_bytes`.
    SharedText(std::string&& bytes, const Meter& meter);
    /// A copy of a borrowed text has bytes of its own.
    SharedText(const SharedText& other);
    SharedText& operator=(const SharedText& other) { return *this = SharedText(other); }
    SharedText(SharedText&&) = default;
    SharedText& operator=(SharedText&&) = default;

    /// Refers to the same bytes without a copy. Unless the bytes are shared, it is valid only while
    /// this value is unchanged.
    SharedText borrowed() const;

    /// Other copies are not changed. Shared bytes are copied only if another copy has been appended
    /// to before.
    void append(std::string_view bytes, const Meter& meter);

    std::string_view view() const {
        if (const auto* own = std::get_if<std::string>(&bytes_)) return *own;
        if (const auto* borrowed = std::get_if<std::string_view>(&bytes_)) return *borrowed;
        return shared_view();
    }
    std::size_t size() const { return view().size(); }
    /// The bytes that no meter counts: this value's own bytes, as far as they are outside of this
    /// object.
    std::size_t own_bytes() const {
        const auto* own = std::get_if<std::string>(&bytes_);
        return own != nullptr ? own->capacity() - std::string{}.capacity() : 0;
    }
    /// The bytes that are freed with this value: none while copies share them.
    std::size_t sole_bytes() const;
    /// The most memory that `append` needs for so many bytes, while the old block still exists.
    std::size_t growth_by_append(std::size_t bytes) const;
    bool is_shared() const { return std::holds_alternative<Shared>(bytes_); }

    /// Returns the bytes; own bytes are moved, not copied.
    std::string take() &&;

    class Observer;
    /// Gives access to these bytes while they are shared and a copy is alive.
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
