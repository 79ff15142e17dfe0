// SPDX-License-Identifier: Apache-2.0
// The folder for workers' error files, and which files in it are read.
#include "agent/runner/post_mortem.hpp"

#include "tests/process/support/skip.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::test {
namespace {

/// A path where nothing is, in a folder that is removed at the end.
struct Place {
    Place() {
        std::string name = "/tmp/ddprun-post-mortem-XXXXXX";
        top = ::mkdtemp(name.data());
        path = top / "errors";
    }
    ~Place() { std::filesystem::remove_all(top); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    std::filesystem::path top;
    std::filesystem::path path;
};

/// systemd-tmpfiles does this before it removes old files in a folder, and the folder.
bool can_be_cleaned_up(const std::filesystem::path& folder) {
    const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_locked = ::flock(file, LOCK_EX | LOCK_NB) == 0;
    ::close(file);
    return is_locked;
}

std::string message_of(
    const std::filesystem::path& file,
    agent::PostMortem& post_mortem,
    boost::asio::io_context& io) {
    agent::PostMortem::Death death;
    death.error_file = file;
    death.end = {control::WorkerEnd::Kind::exited, 1, false};
    std::optional<agent::PostMortem::Finding> found;
    post_mortem.examine(
        std::move(death), [&](agent::PostMortem::Finding finding) { found = std::move(finding); });
    io.restart();
    const auto work = boost::asio::make_work_guard(io);
    while (!found)
        io.run_one();
    return found->original;
}

const std::string report = R"({"message": {"message": "KeyError: 1", "extraInfo": {}}})";

}  // namespace

TEST_CASE("the folder for error files is locked from a round's start, and made again if removed") {
    const Place place;
    boost::asio::io_context io;
    {
        const agent::PostMortem post_mortem(io);
        post_mortem.beginning(place.path)();
        CHECK_FALSE(can_be_cleaned_up(place.path));
        post_mortem.beginning(place.path)();
        CHECK_FALSE(can_be_cleaned_up(place.path));

        std::filesystem::remove(place.path);
        post_mortem.beginning(place.path)();
        CHECK_FALSE(can_be_cleaned_up(place.path));
    }
    CHECK(can_be_cleaned_up(place.path));
}

TEST_CASE("an error file belongs to the user that the folder belongs to, whatever its number") {
    if (::geteuid() != 0) return skip("needs root, to give files to another user");
    constexpr uid_t another = 12'345;
    const Place place;
    boost::asio::io_context io;
    agent::PostMortem post_mortem(io);
    post_mortem.beginning(place.path)();
    const auto file = place.path / "0-0.json";
    const auto read_as = [&](uid_t folder, uid_t owner) {
        std::ofstream(file) << report;
        CHECK(::chown(place.path.c_str(), folder, folder) == 0);
        CHECK(::chown(file.c_str(), owner, owner) == 0);
        return message_of(file, post_mortem, io);
    };
    CHECK(read_as(0, 0) == report);
    // A file system that maps users.
    CHECK(read_as(another, another) == report);
    CHECK(read_as(0, another).empty());
}

}  // namespace ddprun::test
