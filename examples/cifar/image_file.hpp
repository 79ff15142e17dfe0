// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// CIFAR-10's binary files: one record after the other, without a header; a record is a byte for
/// the class of the picture, followed by its red, green and blue planes, line by line.
/// https://www.cs.toronto.edu/~kriz/cifar.html describes them.
namespace cifar {

inline constexpr std::size_t image_side = 32;
inline constexpr std::size_t plane_pixels = image_side * image_side;
inline constexpr std::size_t image_bytes = 3 * plane_pixels;
inline constexpr std::size_t class_count = 10;

/// The data cannot be used. The text names the file, the reason and the remedy.
class DataError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Pictures of image_bytes each, as in the files, and their classes, 0 to 9, in the same order.
struct Dataset {
    std::vector<std::uint8_t> pixels;
    std::vector<std::uint8_t> labels;

    std::size_t size() const { return labels.size(); }
};

enum class Split { train, test };

/// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, from `folder`; they may hold any
/// number of pictures. Throws DataError.
Dataset read_dataset(const std::string& folder, Split split);

/// Writes the pictures (those for training divided among five files as equally as possible), and
/// makes the folder if there is none. Each file is written whole or not at all. Throws DataError.
void write_dataset(const std::string& folder, Split split, const Dataset& data);

}  // namespace cifar
