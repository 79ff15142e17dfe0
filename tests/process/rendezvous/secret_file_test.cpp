// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret_file.hpp"

#include "rendezvous/base/log.hpp"
#include "tests/process/support/skip.hpp"
#include "tests/process/support/temp_dir.hpp"
#include "tests/process/support/wait.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <vector>

namespace ddprun::test {
namespace {

const std::string a_line = "ddprun-secret-1:" + std::string(43, 'A') + "\n";
const std::string b_line = "ddprun-secret-1:" + std::string(43, 'B') + "\n";

std::string file_of(const TempDir& dir, const std::string& text, mode_t mode = 0600) {
    auto path = dir.write("secret", text);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
}

/// The problem that is reported for the file.
std::string problem_with(const std::string& path) {
    const auto read = tls::read_secret_file("--rdzv-secret-file", path);
    if (read) return {};
    CHECK(read.error().code == system_code(EINVAL));
    const auto before = "--rdzv-secret-file: '" + path + "': ";
    CHECK(read.error().context.starts_with(before));
    return read.error().context.substr(before.size());
}

}  // namespace

TEST_CASE("a file of this user's alone has the secret, also behind a link") {
    const TempDir dir;
    const auto path = file_of(dir, a_line + b_line);
    const auto read = tls::read_secret_file("x", path);
    REQUIRE(read.has_value());
    CHECK(read->secrets.size() == 2);
    CHECK(read->name() == path);
    // A link, as Kubernetes mounts it.
    const auto link = (dir / "link").string();
    REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
    CHECK(problem_with(link).empty());
}

TEST_CASE("a file that others can write or read, or that is no file of ours, has none") {
    const TempDir dir;
    CHECK(
        problem_with(file_of(dir, a_line, 0620)) == "can be written by other users: chmod go-w it");
    CHECK(
        problem_with(file_of(dir, a_line, 0602)) == "can be written by other users: chmod go-w it");
    CHECK(problem_with(file_of(dir, "hunter2\n")).starts_with("line 1 is no secret"));
    CHECK(problem_with(file_of(dir, "")).starts_with("no secret in it"));
    CHECK(problem_with(file_of(dir, std::string(1024 * 1024, 'x'))) == "has more than 4096 bytes");
    CHECK(problem_with((dir / "none").string()) == "No such file or directory");
    CHECK(problem_with(dir.path().string()) == "is no regular file");
    const auto pipe = (dir / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK(problem_with(pipe) == "is no regular file");
    CHECK(problem_with("").starts_with("No such file"));
    // A file of root may be readable, as a mounted Secret is.
    const auto readable = file_of(dir, a_line, 0644);
    if (::geteuid() == 0) {
        CHECK(problem_with(readable).empty());
        REQUIRE(::chown(readable.c_str(), 1234, 1234) == 0);
        CHECK(problem_with(readable) == "belongs to another user");
    } else {
        CHECK(problem_with(readable) == "can be read by other users: chmod go-r it");
    }
}

TEST_CASE("a pod's token may be read by the pod's group, but others may not write it") {
    const TempDir dir;
    const auto read = [&](mode_t mode, const std::string& text) {
        const auto path = file_of(dir, text, mode);
        // As the kubelet gives it to the user and the group of the pod.
        if (::geteuid() == 0) REQUIRE(::chown(path.c_str(), 1000, 2000) == 0);
        const auto token = tls::read_token_file("k8s", path);
        return token ? *token : token.error().context.substr(("k8s: '" + path + "': ").size());
    };
    CHECK(read(0640, "ey.token\n") == "ey.token");
    CHECK(read(0644, "ey.token") == "ey.token");
    CHECK(read(0660, "ey.token") == "can be written by other users: chmod go-w it");
    CHECK(read(0640, "\n") == "is empty");
    CHECK(read(0640, std::string(4097, 'x')) == "has more than 4096 bytes");
    // A password is refused with such a mode.
    if (::geteuid() == 0) {
        const auto path = file_of(dir, "password", 0640);
        REQUIRE(::chown(path.c_str(), 1000, 2000) == 0);
        CHECK_FALSE(tls::read_password_file("etcd", path).has_value());
    }
}

TEST_CASE("the user's own file is made at its first use, for the user alone, and once") {
    const TempDir dir;
    const auto path = (dir / ".config/ddprun/secret").string();
    std::vector<std::future<Result<tls::SecretSource>>> makers;
    for (int i = 0; i < 8; ++i)
        makers.push_back(std::async(
            std::launch::async, [&] { return tls::read_or_make_secret_file("--secure", path); }));
    const auto first = makers.front().get();
    REQUIRE(first.has_value());
    for (std::size_t i = 1; i < makers.size(); ++i) {
        const auto other = makers[i].get();
        REQUIRE(other.has_value());
        CHECK(other->secrets == first->secrets);
    }
    struct stat facts {};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
    REQUIRE(::stat((dir / ".config/ddprun").c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0700);
    // Nothing unfinished is left.
    std::filesystem::directory_iterator entries{dir / ".config/ddprun"};
    CHECK(std::distance(begin(entries), end(entries)) == 1);
    CHECK(tls::read_or_make_secret_file("--secure", path)->secrets == first->secrets);
}

TEST_CASE("the user's own file is no link, and is not made where that is not possible") {
    const TempDir dir;
    const auto path = (dir / "link").string();
    REQUIRE(::symlink(file_of(dir, a_line).c_str(), path.c_str()) == 0);
    CHECK_FALSE(tls::read_or_make_secret_file("--secure", path).has_value());
    const auto refused = tls::read_or_make_secret_file("--secure", "/proc/none/secret");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().context.starts_with("--secure: '/proc/none/secret': cannot be made: "));
}

namespace {

/// The interval in this test: the file is checked constantly.
constexpr Duration at_once = std::chrono::milliseconds{1};

const tls::Key a_key = tls::control_key(tls::Secret{std::string(43, 'A')});
const tls::Key b_key = tls::control_key(tls::Secret{std::string(43, 'B')});

bool uses(const tls::Secrets& secrets, const tls::Key& key) {
    return holds_within(fact_timeout, [&] { return secrets.control_key() == key; });
}

bool accepts(const tls::Secrets& secrets, const tls::Key& key, bool expected = true) {
    return holds_within(fact_timeout, [&] {
        return secrets.find_control_key(key.identity).has_value() == expected;
    });
}

/// The lines of the log, from any thread.
struct Lines {
    Lines() {
        log::set_sink([this](const std::string& line) {
            const std::lock_guard lock(mutex);
            lines.push_back(line);
        });
    }
    ~Lines() { log::set_sink(nullptr); }

    long with(const std::string& text) {
        const std::lock_guard lock(mutex);
        return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
            return line.find(text) != std::string::npos;
        });
    }

    std::mutex mutex;
    std::vector<std::string> lines;
};

/// Puts a new file in the place of the secret.
void replace(const TempDir& dir, const std::string& text) {
    const auto path = dir.write("new", text);
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    std::filesystem::rename(path, dir / "secret");
}

}  // namespace

TEST_CASE("a changed file is read again, and one that became wrong leaves what was") {
    const TempDir dir;
    const auto path = file_of(dir, a_line);
    const tls::Secrets secrets(*tls::read_secret_file("x", path), at_once);
    CHECK(secrets.control_key() == a_key);
    // A secret is added, then used first, and the old one removed: what each end accepts and uses
    // meanwhile.
    replace(dir, a_line + b_line);
    CHECK(accepts(secrets, b_key));
    CHECK(secrets.control_key() == a_key);
    replace(dir, b_line + a_line);
    CHECK(uses(secrets, b_key));
    CHECK(secrets.find_control_key(a_key.identity) == a_key);
    replace(dir, b_line);
    CHECK(accepts(secrets, a_key, false));
    CHECK(secrets.control_key() == b_key);
}

TEST_CASE("a file that is wrong or gone leaves what was, which is said once for each change") {
    Lines lines;
    const TempDir dir;
    const auto path = file_of(dir, a_line);
    const tls::Secrets secrets(*tls::read_secret_file("x", path), at_once);
    replace(dir, "no secret at all");
    CHECK(holds_within(fact_timeout, [&] { return lines.with("is no secret") == 1; }));
    CHECK(secrets.control_key() == a_key);
    REQUIRE(std::filesystem::remove(path));
    CHECK(holds_within(fact_timeout, [&] { return lines.with("No such file") == 1; }));
    CHECK(secrets.control_key() == a_key);
    replace(dir, b_line);
    CHECK(uses(secrets, b_key));
    CHECK(lines.with("secret.not_read") == 2);
}

TEST_CASE("no link to the user's own file is followed when it is read again either") {
    Lines lines;
    const TempDir dir;
    const auto path = file_of(dir, a_line);
    const tls::Secrets secrets(*tls::read_or_make_secret_file("--secure", path), at_once);
    const auto elsewhere = dir.write("elsewhere", b_line);
    REQUIRE(::chmod(elsewhere.c_str(), 0600) == 0);
    REQUIRE(::symlink(elsewhere.c_str(), (dir / "link").c_str()) == 0);
    std::filesystem::rename(dir / "link", path);
    CHECK(holds_within(fact_timeout, [&] { return lines.with("secret.not_read") == 1; }));
    CHECK(secrets.control_key() == a_key);
}

TEST_CASE("a file system that does not answer keeps no caller waiting, nor the end") {
    const TempDir dir;
    const auto path = file_of(dir, a_line);
    // The kernel waits for this test's permission to open the new file, which the test does not
    // give.
    const int questions = ::fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);
    if (questions < 0) return skip("fanotify: " + system_code(errno).message());
    {
        const tls::Secrets secrets(*tls::read_secret_file("x", path), at_once);
        const auto next = dir.write("new", b_line);
        REQUIRE(::chmod(next.c_str(), 0600) == 0);
        const int result =
            ::fanotify_mark(questions, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, next.c_str());
        if (result != 0) {
            ::close(questions);
            return skip("fanotify: " + system_code(errno).message());
        }
        std::filesystem::rename(next, path);
        pollfd asked{questions, POLLIN, 0};
        const int timeout_ms = 30'000;
        REQUIRE(::poll(&asked, 1, timeout_ms) == 1);
        CHECK(secrets.control_key() == a_key);
        CHECK(secrets.find_control_key(a_key.identity) == a_key);
    }
    // The thread continues, without using the destroyed object.
    ::close(questions);
}

}  // namespace ddprun::test
