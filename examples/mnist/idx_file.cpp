// SPDX-License-Identifier: Apache-2.0
#include "idx_file.hpp"

#include "digit_painter.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

namespace mnist {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t images_magic = 0x0000'0803;  // bytes, three dimensions
constexpr std::uint32_t labels_magic = 0x0000'0801;  // bytes, one dimension
constexpr std::uint64_t max_count = 100'000'000;

constexpr const char* remedy =
    "\nmake_digits --out DIR writes a data set; MNIST's own four files, unpacked, do as well";

fs::path images_path(const fs::path& folder, Split split) {
    return folder / (split == Split::train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte");
}

fs::path labels_path(const fs::path& folder, Split split) {
    return folder / (split == Split::train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte");
}

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
    throw DataError(path.string() + ": " + why + remedy);
}

std::string last_system_error() {
    return std::generic_category().message(errno);
}

class IdxReader {
public:
    explicit IdxReader(const fs::path& path) : path_(path) {
        std::error_code error;
        const auto status = fs::status(path, error);
        if (!fs::exists(status)) {
            auto packed = path;
            packed += ".gz";
            refuse(path, fs::exists(packed, error) ? "is still packed (gunzip it)" : "is missing");
        }
        if (!fs::is_regular_file(status)) refuse(path, "is not a file");
        size_ = fs::file_size(path, error);
        errno = 0;
        file_.open(path, std::ios::binary);
        if (!file_) refuse(path, last_system_error());
    }

    std::uint32_t number() {
        unsigned char bytes[4];
        if (!file_.read(reinterpret_cast<char*>(bytes), 4))
            refuse(path_, "is cut short: it ends before its header does");
        return static_cast<std::uint32_t>(bytes[0]) << 24U |
               static_cast<std::uint32_t>(bytes[1]) << 16U |
               static_cast<std::uint32_t>(bytes[2]) << 8U | bytes[3];
    }

    void expect_magic(std::uint32_t magic, const std::string& what) {
        if (number() != magic) refuse(path_, "does not hold " + what + " (wrong magic number)");
    }

    /// The size is checked against the file's before anything is allocated.
    std::vector<std::uint8_t> rest(std::uint64_t expected) {
        const auto header = static_cast<std::uint64_t>(file_.tellg());
        if (size_ != header + expected)
            refuse(
                path_,
                std::string{size_ < header + expected ? "is cut short" : "is too long"} + ": " +
                    std::to_string(size_) + " bytes, its header promises " +
                    std::to_string(header + expected));
        std::vector<std::uint8_t> bytes(expected);
        if (!file_.read(
                reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(expected)))
            refuse(path_, "cannot be read to its end");
        return bytes;
    }

private:
    fs::path path_;
    std::ifstream file_;
    std::uint64_t size_ = 0;
};

std::vector<std::uint8_t> read_images(const fs::path& path) {
    IdxReader file{path};
    file.expect_magic(images_magic, "images");
    const std::uint64_t count = file.number();
    const auto rows = file.number();
    const auto columns = file.number();
    if (rows != image_side || columns != image_side)
        refuse(
            path,
            "holds pictures of " + std::to_string(rows) + " by " + std::to_string(columns) +
                " pixels, not 28 by 28");
    if (count == 0 || count > max_count)
        refuse(path, "says that it holds " + std::to_string(count) + " pictures");
    return file.rest(count * image_pixels);
}

std::vector<std::uint8_t> read_labels(const fs::path& path) {
    IdxReader file{path};
    file.expect_magic(labels_magic, "labels");
    auto labels = file.rest(file.number());
    const auto wrong =
        std::find_if(labels.begin(), labels.end(), [](auto label) { return label > 9; });
    if (wrong != labels.end())
        refuse(path, "holds the label " + std::to_string(*wrong) + "; digits are 0 to 9");
    return labels;
}

void append(std::vector<std::uint8_t>& bytes, std::uint32_t number) {
    for (int bit = 24; bit >= 0; bit -= 8)
        bytes.push_back(static_cast<std::uint8_t>(number >> bit & 0xFFU));
}

void write_file(
    const fs::path& path,
    const std::vector<std::uint8_t>& header,
    const std::vector<std::uint8_t>& content) {
    auto unfinished = path;
    unfinished += ".unfinished";
    errno = 0;
    std::ofstream file{unfinished, std::ios::binary | std::ios::trunc};
    const auto put = [&](const std::vector<std::uint8_t>& bytes) {
        file.write(
            reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
    };
    put(header);
    put(content);
    file.close();
    std::error_code error;
    if (!file) {
        const auto why = last_system_error();
        fs::remove(unfinished, error);
        throw DataError("cannot write " + path.string() + ": " + why);
    }
    fs::rename(unfinished, path, error);
    if (error) throw DataError("cannot write " + path.string() + ": " + error.message());
}

}  // namespace

const std::uint8_t* Dataset::image(std::size_t index) const {
    return pixels.data() + index * image_pixels;
}

Dataset read_dataset(const std::string& folder, Split split) {
    Dataset data{read_images(images_path(folder, split)), read_labels(labels_path(folder, split))};
    if (data.pixels.size() != data.labels.size() * image_pixels)
        refuse(
            labels_path(folder, split),
            "holds " + std::to_string(data.labels.size()) + " labels, beside it are " +
                std::to_string(data.pixels.size() / image_pixels) + " pictures");
    return data;
}

void write_dataset(const std::string& folder, Split split, const Dataset& data) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw DataError("cannot make the folder " + folder + ": " + error.message());

    const auto count = static_cast<std::uint32_t>(data.size());
    std::vector<std::uint8_t> header;
    for (const auto number :
         {images_magic, count, std::uint32_t{image_side}, std::uint32_t{image_side}})
        append(header, number);
    write_file(images_path(folder, split), header, data.pixels);

    header.clear();
    for (const auto number : {labels_magic, count})
        append(header, number);
    write_file(labels_path(folder, split), header, data.labels);
}

}  // namespace mnist
