// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// MNIST's files: a magic number for type and dimensions, the dimensions, then bytes; all numbers
/// big-endian. http://yann.lecun.com/exdb/mnist describes them.
namespace mnist {

/// The data cannot be used. The text names the file, the reason and the remedy.
class DataError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Pictures of image_side by image_side pixels and their classes, 0 to 9, in the same order.
struct Dataset {
    std::vector<std::uint8_t> pixels;
    std::vector<std::uint8_t> labels;

    std::size_t size() const { return labels.size(); }
    const std::uint8_t* image(std::size_t index) const;
};

enum class Split { train, test };

/// Reads both files of a split from `folder`, named as MNIST's are. Throws DataError.
Dataset read_dataset(const std::string& folder, Split split);

/// Writes both files, and makes the folder if there is none. Each file is written whole or not at
/// all. Throws DataError.
void write_dataset(const std::string& folder, Split split, const Dataset& data);

}  // namespace mnist
