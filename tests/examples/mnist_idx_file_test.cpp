// SPDX-License-Identifier: Apache-2.0
#include "examples/mnist/digit_painter.hpp"
#include "examples/mnist/digit_set.hpp"
#include "examples/mnist/idx_file.hpp"
#include "tests/examples/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace mnist;
namespace fs = std::filesystem;

namespace {

/// A data set on the disk, which tests damage.
struct Files : TemporaryFolder {
    Files() { write_dataset(path, Split::train, paint_digits(3, Split::train, 1, {})); }

    std::string images = in("train-images-idx3-ubyte");
    std::string labels = in("train-labels-idx1-ubyte");

    /// Why it cannot be read: the first line of the error, without the folder.
    std::string refusal() const {
        try {
            read_dataset(path, Split::train);
        } catch (const DataError& error) {
            const std::string what = error.what();
            CHECK(what.find("make_digits --out DIR") != std::string::npos);
            return what.substr(path.size() + 1, what.find('\n') - path.size() - 1);
        }
        return "none";
    }

    static void poke(const std::string& file, std::streamoff place, char byte) {
        std::fstream stream{file, std::ios::binary | std::ios::in | std::ios::out};
        stream.seekp(place);
        stream.put(byte);
    }
};

}  // namespace

TEST_CASE("a data set comes back as it was, in files that begin as MNIST's do") {
    const TemporaryFolder folder;
    const auto data = paint_digits(5, Split::test, 1, {});

    write_dataset(folder.path, Split::test, data);
    const auto back = read_dataset(folder.path, Split::test);

    CHECK(back.pixels == data.pixels);
    CHECK(back.labels == data.labels);
    std::ifstream images{folder.in("t10k-images-idx3-ubyte"), std::ios::binary};
    std::string header(16, '\0');
    images.read(header.data(), 16);
    CHECK(header == std::string("\0\0\x08\x03\0\0\0\x05\0\0\0\x1c\0\0\0\x1c", 16));
    CHECK(fs::file_size(folder.in("t10k-labels-idx1-ubyte")) == 8 + 5);
    CHECK(std::distance(fs::directory_iterator{folder.path}, {}) == 2);
}

TEST_CASE("a missing file is named, and a packed one recognised") {
    Files files;
    fs::remove(files.labels);
    CHECK(files.refusal() == "train-labels-idx1-ubyte: is missing");

    std::ofstream{files.labels + ".gz"} << "packed";
    CHECK(files.refusal() == "train-labels-idx1-ubyte: is still packed (gunzip it)");
}

TEST_CASE("a file cut at any place is refused") {
    Files files;
    const auto whole = fs::file_size(files.images);
    for (const std::uintmax_t size : {std::uintmax_t{15}, std::uintmax_t{3}, std::uintmax_t{0}}) {
        fs::resize_file(files.images, size);
        CHECK(
            files.refusal() ==
            "train-images-idx3-ubyte: is cut short: it ends before its header does");
    }
    Files again;
    fs::resize_file(again.images, whole - 1);
    CHECK(
        again.refusal() ==
        "train-images-idx3-ubyte: is cut short: 2367 bytes, its header promises 2368");
    fs::resize_file(again.images, whole + 1);
    CHECK(
        again.refusal() ==
        "train-images-idx3-ubyte: is too long: 2369 bytes, its header promises 2368");
}

TEST_CASE("other files and other pictures are refused") {
    Files wrong_magic;
    Files::poke(wrong_magic.images, 3, 1);
    CHECK(
        wrong_magic.refusal() ==
        "train-images-idx3-ubyte: does not hold images (wrong magic number)");

    Files wrong_size;
    Files::poke(wrong_size.images, 11, 32);
    CHECK(
        wrong_size.refusal() ==
        "train-images-idx3-ubyte: holds pictures of 32 by 28 pixels, not 28 by 28");

    Files huge;
    Files::poke(huge.images, 4, '\x7f');
    CHECK(huge.refusal() == "train-images-idx3-ubyte: says that it holds 2130706435 pictures");

    Files wrong_label;
    Files::poke(wrong_label.labels, 9, 10);
    CHECK(
        wrong_label.refusal() == "train-labels-idx1-ubyte: holds the label 10; digits are 0 to 9");

    Files fewer_labels;
    Files::poke(fewer_labels.labels, 7, 2);
    fs::resize_file(fewer_labels.labels, 10);
    CHECK(
        fewer_labels.refusal() ==
        "train-labels-idx1-ubyte: holds 2 labels, beside it are 3 pictures");

    Files folder_instead;
    fs::remove(folder_instead.images);
    fs::create_directory(folder_instead.images);
    CHECK(folder_instead.refusal() == "train-images-idx3-ubyte: is not a file");
}

TEST_CASE("a folder that cannot be made or written is an error with the reason") {
    const TemporaryFolder folder;
    std::ofstream{folder.in("file")} << "";
    const auto data = paint_digits(1, Split::train, 1, {});

    CHECK_THROWS_AS(write_dataset(folder.in("file"), Split::train, data), DataError);
    CHECK_THROWS_AS(write_dataset(folder.in("file/deeper"), Split::train, data), DataError);
}
