// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/process_group.hpp"
#include "worker_sdk/src/checkpoint/folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::checkpoint {

/// Every rank gets the text of `root`.
inline std::string send(const ProcessGroup& group, std::string text, int root) {
    auto size = static_cast<std::int64_t>(text.size());
    group.broadcast(&size, 1, root).wait();
    text.resize(static_cast<std::size_t>(size));
    group.broadcast(reinterpret_cast<std::byte*>(text.data()), text.size(), root).wait();
    return text;
}

/// A file of `root` that all ranks read together, with one piece in memory at a time. All read the
/// same number of bytes.
class SharedFile {
public:
    /// `file` is given on the root only.
    SharedFile(const ProcessGroup& group, int root, std::uint64_t size, FileReader* file)
        : group_(group),
          root_(root),
          left_(size),
          file_(file) {}

    Result<> read(std::span<std::byte> target) {
        while (!target.empty()) {
            if (piece_.empty())
                if (auto failed = next(); !failed) return failed;
            const auto bytes = std::min(piece_.size(), target.size());
            std::copy_n(piece_.begin(), bytes, target.begin());
            piece_ = piece_.subspan(bytes);
            target = target.subspan(bytes);
        }
        return {};
    }

private:
    /// How many bytes of a file one collective carries.
    static constexpr std::size_t piece_bytes = std::size_t{4} << 20;

    /// The last byte of a message is 1 when the root could not read the bytes before it.
    Result<> next() {
        const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_, piece_bytes));
        message_.resize(bytes + 1);
        const auto piece = std::span{message_}.first(bytes);
        piece_ = piece;
        Result<> result;
        if (file_ != nullptr) result = file_->read(piece);
        message_.back() = result ? std::byte{0} : std::byte{1};
        group_.broadcast(message_.data(), message_.size(), root_).wait();
        left_ -= bytes;
        if (!result) return result;
        if (message_.back() != std::byte{0})
            return Failure{
                system_code(EIO), "rank " + std::to_string(root_) + " could not read its file"};
        return {};
    }

    const ProcessGroup& group_;
    int root_;
    std::uint64_t left_;
    FileReader* file_;
    std::vector<std::byte> message_;
    std::span<const std::byte> piece_;
};

}  // namespace ddprun::checkpoint
