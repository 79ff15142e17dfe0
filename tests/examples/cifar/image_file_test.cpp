// SPDX-License-Identifier: Apache-2.0
#include "examples/cifar/image_file.hpp"

#include "tests/examples/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using cifar::Split;

constexpr std::size_t record_bytes = 3073;

cifar::Dataset some_pictures(std::size_t count) {
    cifar::Dataset data;
    for (std::size_t i = 0; i < count; ++i) {
        data.labels.push_back(static_cast<std::uint8_t>(i % 10));
        for (std::size_t k = 0; k < cifar::image_bytes; ++k)
            data.pixels.push_back(static_cast<std::uint8_t>(i * 7 + k));
    }
    return data;
}

void put(const fs::path& path, const std::string& content) {
    std::ofstream{path, std::ios::binary} << content;
}

std::string refusal(const std::string& folder, Split split) {
    try {
        cifar::read_dataset(folder, split);
    } catch (const cifar::DataError& error) {
        return error.what();
    }
    return "it was read";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("pictures that were written as CIFAR-10's files are read again, in their order") {
    const TemporaryFolder folder;
    const auto train = some_pictures(13);
    const auto test = some_pictures(4);
    cifar::write_dataset(folder.path, Split::train, train);
    cifar::write_dataset(folder.path, Split::test, test);

    const auto read = cifar::read_dataset(folder.path, Split::train);
    CHECK(read.labels == train.labels);
    CHECK(read.pixels == train.pixels);
    CHECK(cifar::read_dataset(folder.path, Split::test).pixels == test.pixels);

    std::uintmax_t total = 0;
    for (int i = 1; i <= 5; ++i)
        total +=
            fs::file_size(fs::path{folder.path} / ("data_batch_" + std::to_string(i) + ".bin"));
    CHECK(total == 13 * record_bytes);
    CHECK(fs::file_size(fs::path{folder.path} / "test_batch.bin") == 4 * record_bytes);
}

TEST_CASE("a record is its label and then red, green and blue, each line by line") {
    const TemporaryFolder folder;
    std::string record(record_bytes, '\0');
    record[0] = 7;
    record[1 + 32 + 5] = 10;          // red, line 1, column 5
    record[1 + 1024 + 31] = 20;       // green, line 0, column 31
    record[1 + 2048 + 31 * 32] = 30;  // blue, line 31, column 0
    put(fs::path{folder.path} / "test_batch.bin", record);

    const auto data = cifar::read_dataset(folder.path, Split::test);
    REQUIRE(data.size() == 1);
    CHECK(data.labels[0] == 7);
    CHECK(data.pixels[0 * cifar::plane_pixels + 32 + 5] == 10);
    CHECK(data.pixels[1 * cifar::plane_pixels + 31] == 20);
    CHECK(data.pixels[2 * cifar::plane_pixels + 31 * 32] == 30);
}

TEST_CASE("a file that cannot be CIFAR-10's is refused with its name, the reason and a remedy") {
    const TemporaryFolder folder;
    const auto path = fs::path{folder.path} / "test_batch.bin";
    const auto words = [&] { return refusal(folder.path, Split::test); };

    CHECK(has(words(), "test_batch.bin: is missing\nmake_images --out DIR"));

    put(path, "");
    CHECK(has(words(), "is empty"));

    put(path, std::string(2 * record_bytes - 1, '\0'));
    CHECK(
        has(words(),
            "is cut short, or of another format: 6145 bytes are 1 pictures of 3073 and 3072 bytes "
            "over"));

    put(path, std::string(record_bytes + 1, '\0'));
    CHECK(has(words(), "1 pictures of 3073 and 1 bytes over"));

    std::string wrong_label(3 * record_bytes, '\0');
    wrong_label[2 * record_bytes] = 10;
    put(path, wrong_label);
    CHECK(has(words(), "picture 2 has the label 10; they are 0 to 9"));
    wrong_label[2 * record_bytes] = '\xFF';
    put(path, wrong_label);
    CHECK(has(words(), "picture 2 has the label 255"));

    fs::remove(path);
    fs::create_directory(path);
    CHECK(has(words(), "is not a file"));
}

TEST_CASE("the folder around the files, and the files for Python, have errors of their own") {
    const TemporaryFolder folder;
    const auto unpacked = fs::path{folder.path} / "cifar-10-batches-bin";
    cifar::write_dataset(unpacked.string(), Split::train, some_pictures(5));
    CHECK(has(
        refusal(folder.path, Split::train), "is missing; it is in " + unpacked.string() + "\n"));

    put(fs::path{folder.path} / "test_batch", "pickled");
    CHECK(has(
        refusal(folder.path, Split::test), "is missing; test_batch is the version for Python\n"));
}

TEST_CASE("a missing one of the five files is named") {
    const TemporaryFolder folder;
    cifar::write_dataset(folder.path, Split::train, some_pictures(10));
    fs::remove(fs::path{folder.path} / "data_batch_4.bin");
    CHECK(has(refusal(folder.path, Split::train), "data_batch_4.bin: is missing"));
}
