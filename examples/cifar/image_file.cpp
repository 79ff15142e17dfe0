// SPDX-License-Identifier: Apache-2.0
#include "image_file.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace cifar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t record_bytes = 1 + image_bytes;
constexpr std::uintmax_t max_file_bytes = std::uintmax_t{10'000'000} * record_bytes;
constexpr std::size_t train_file_count = 5;

constexpr const char* remedy =
    "\nmake_images --out DIR writes a data set; the files of CIFAR-10's binary version, unpacked, "
    "do as well";

std::vector<std::string> file_names(Split split) {
    if (split == Split::test) return {"test_batch.bin"};
    std::vector<std::string> names;
    for (std::size_t i = 1; i <= train_file_count; ++i)
        names.push_back("data_batch_" + std::to_string(i) + ".bin");
    return names;
}

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
    throw DataError(path.string() + ": " + why + remedy);
}

std::string last_system_error() {
    return std::generic_category().message(errno);
}

/// Names what users usually have instead: the archive's own folder, or the version for Python.
[[noreturn]] void refuse_missing(const fs::path& path) {
    std::error_code error;
    const auto unpacked = path.parent_path() / "cifar-10-batches-bin";
    if (fs::exists(unpacked / path.filename(), error))
        refuse(path, "is missing; it is in " + unpacked.string());
    if (fs::exists(path.parent_path() / path.stem(), error))
        refuse(path, "is missing; " + path.stem().string() + " is the version for Python");
    refuse(path, "is missing");
}

/// The size is checked before anything is allocated.
std::size_t record_count(const fs::path& path) {
    std::error_code error;
    const auto status = fs::status(path, error);
    if (!fs::exists(status)) refuse_missing(path);
    if (!fs::is_regular_file(status)) refuse(path, "is not a file");
    const auto size = fs::file_size(path, error);
    if (error) refuse(path, error.message());
    if (size == 0) refuse(path, "is empty");
    if (size > max_file_bytes) refuse(path, "is too long: " + std::to_string(size) + " bytes");
    if (size % record_bytes != 0)
        refuse(
            path,
            "is cut short, or of another format: " + std::to_string(size) + " bytes are " +
                std::to_string(size / record_bytes) + " pictures of " +
                std::to_string(record_bytes) + " and " + std::to_string(size % record_bytes) +
                " bytes over");
    return static_cast<std::size_t>(size) / record_bytes;
}

void append_file(const fs::path& path, Dataset& data) {
    const auto count = record_count(path);
    errno = 0;
    std::ifstream file{path, std::ios::binary};
    if (!file) refuse(path, last_system_error());
    data.labels.reserve(data.labels.size() + count);
    data.pixels.reserve(data.pixels.size() + count * image_bytes);
    std::vector<std::uint8_t> record(record_bytes);
    for (std::size_t i = 0; i < count; ++i) {
        if (!file.read(reinterpret_cast<char*>(record.data()), record_bytes))
            refuse(path, "cannot be read to its end");
        if (record[0] >= class_count)
            refuse(
                path,
                "picture " + std::to_string(i) + " has the label " + std::to_string(record[0]) +
                    "; they are 0 to 9");
        data.labels.push_back(record[0]);
        data.pixels.insert(data.pixels.end(), record.begin() + 1, record.end());
    }
}

void write_file(const fs::path& path, const Dataset& data, std::size_t first, std::size_t last) {
    auto unfinished = path;
    unfinished += ".unfinished";
    errno = 0;
    std::ofstream file{unfinished, std::ios::binary | std::ios::trunc};
    for (auto i = first; i < last; ++i) {
        file.put(static_cast<char>(data.labels[i]));
        file.write(
            reinterpret_cast<const char*>(data.pixels.data() + i * image_bytes), image_bytes);
    }
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

Dataset read_dataset(const std::string& folder, Split split) {
    Dataset data;
    for (const auto& name : file_names(split))
        append_file(fs::path{folder} / name, data);
    return data;
}

void write_dataset(const std::string& folder, Split split, const Dataset& data) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw DataError("cannot make the folder " + folder + ": " + error.message());
    const auto names = file_names(split);
    for (std::size_t i = 0; i < names.size(); ++i)
        write_file(
            fs::path{folder} / names[i],
            data,
            i * data.size() / names.size(),
            (i + 1) * data.size() / names.size());
}

}  // namespace cifar
