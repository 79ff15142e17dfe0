// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/python_frames.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ddprun::test {

/// The memory of a process that does not exist: one block, filled from its beginning.
class FakeMemory {
public:
    static constexpr std::uint64_t base = 0x10000;

    /// Address of `size` new bytes, all zero.
    std::uint64_t add(std::size_t size) {
        constexpr std::size_t alignment = 16;
        const auto address = base + bytes_.size();
        bytes_.resize(bytes_.size() + (size + alignment - 1) / alignment * alignment);
        return address;
    }
    template <class Value>
    void put(std::uint64_t address, Value value) {
        std::memcpy(bytes_.data() + (address - base), &value, sizeof value);
    }
    void put_text(std::uint64_t address, std::string_view text) {
        std::memcpy(bytes_.data() + (address - base), text.data(), text.size());
    }
    std::size_t size() const { return bytes_.size(); }
    std::byte& at(std::size_t index) { return bytes_[index]; }

    /// Valid as long as this object. Counts what is read.
    agent::health::ReadMemory reader() {
        return [this](std::uint64_t address, std::span<std::byte> into) {
            ++reads;
            if (address < base || into.size() > bytes_.size() ||
                address - base > bytes_.size() - into.size())
                return false;
            std::memcpy(into.data(), bytes_.data() + (address - base), into.size());
            return true;
        };
    }

    std::size_t reads = 0;

private:
    std::vector<std::byte> bytes_;
};

}  // namespace ddprun::test
