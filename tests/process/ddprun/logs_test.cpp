// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>

using namespace ddprun;
using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

/// Every file of the only job with logs in the folder, by its path inside the job's folder.
std::map<std::string, std::string> files_of_job(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator{folder}) {
        if (!entry.is_regular_file()) continue;
        const auto name = entry.path().lexically_relative(folder).string();
        files[name.substr(name.find('/') + 1)] = read_file(entry.path());
    }
    return files;
}

Words names_of(const std::map<std::string, std::string>& files) {
    Words names;
    for (const auto& [name, text] : files)
        names.push_back(name);
    return names;
}

std::string host() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

Words lines_in_order(const std::string& text) {
    std::istringstream stream(text);
    Words lines;
    for (std::string line; std::getline(stream, line);)
        lines.push_back(line);
    return lines;
}

/// The output of tests/process/stubs/flood.
std::string flood_text(int rank, const std::string& stream, long lines, std::size_t width) {
    std::string text;
    for (long i = 0; i < lines; ++i) {
        auto line = std::to_string(rank) + " " + stream + " " + std::to_string(i) + " ";
        line.resize(width - 1, 'x');
        text += line + "\n";
    }
    return text;
}

/// A file system of 256 KiB at a folder, for the length of a test.
class SmallDisk {
public:
    explicit SmallDisk(fs::path folder, const char* options = "size=256k")
        : folder_(std::move(folder)) {
        if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, options) != 0)
            why_not_ = std::string{"cannot mount a small file system: "} + std::strerror(errno);
    }
    ~SmallDisk() {
        if (why_not_.empty()) ::umount2(folder_.c_str(), MNT_DETACH);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    const std::string& why_not() const { return why_not_; }

private:
    fs::path folder_;
    std::string why_not_;
};

const std::string says_both = "echo out $RANK; echo err $RANK >&2";

}  // namespace

TEST_CASE("redirected output is in the files, byte for byte, and not on the console") {
    const TempDir dir;
    const auto logs = dir / "logs";
    auto job = one_node(
        dir,
        {"--nproc-per-node=2", "-r", "3", "--log-dir=" + logs.string()},
        "printf 'a\\000b\\r\\377 no end'; " + says_both);
    REQUIRE(job.wait_for_code() == 0);

    const auto node = "round-0/" + host();
    const std::string odd{"a\0b\r\377 no end", 12};
    const std::map<std::string, std::string> expected{
        {node + "/rank-0/stdout.log", odd + "out 0\n"},
        {node + "/rank-0/stderr.log", "err 0\n"},
        {node + "/rank-1/stdout.log", odd + "out 1\n"},
        {node + "/rank-1/stderr.log", "err 1\n"}};
    CHECK(files_of_job(logs) == expected);
    CHECK(job.out().empty());
    CHECK_FALSE(contains(job.err(), "err 0"));
    CHECK(no_descendants_left());
}

TEST_CASE("nothing is made that was not asked for") {
    const TempDir dir;
    const TempDir temporary;
    Running::Options options;
    options.arguments = {"--standalone", "--no-python", dir.write_script("w", "#!/bin/sh\necho\n")};
    options.environment = {{"TMPDIR", temporary.path().string()}};
    Running job{program("ddprun"), options};

    CHECK(job.wait_for_code() == 0);
    CHECK(fs::is_empty(temporary.path()));
}

TEST_CASE("torchrun's layout has torchrun's names, and its prefix is on the console") {
    const TempDir dir;
    const auto logs = (dir / "logs").string();
    auto job = one_node(
        dir,
        {"--nproc-per-node=2",
         "--role=trainer",
         "--tee=3",
         "--log-layout=torchrun",
         "--log-dir=" + logs,
         "--duplicate-stdout-filters=0,nothing"},
        says_both);
    REQUIRE(job.wait_for_code() == 0);

    const std::map<std::string, std::string> expected{
        {"attempt_0/0/stdout.log", "out 0\n"},
        {"attempt_0/0/stderr.log", "err 0\n"},
        {"attempt_0/1/stdout.log", "out 1\n"},
        {"attempt_0/1/stderr.log", "err 1\n"},
        {"attempt_0/filtered_stdout.log", "[trainer0]:out 0\n"}};
    CHECK(files_of_job(logs) == expected);
    CHECK(sorted_lines(job.out()) == Words{"[trainer0]:out 0", "[trainer1]:out 1"});
    CHECK(contains(job.err(), "[trainer0]:err 0\n"));
}

TEST_CASE("a prefix without files leaves stdout and stderr apart, and whole lines whole") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--nproc-per-node=2", "--log-line-prefix-template=${hostname}/${rank}> "},
        "printf 'no end'; echo err >&2");
    REQUIRE(job.wait_for_code() == 0);

    const auto name = host();
    CHECK(sorted_lines(job.out()) == Words{name + "/0> no end", name + "/1> no end"});
    CHECK(contains(job.err(), name + "/0> err\n"));
    CHECK(contains(job.err(), name + "/1> err\n"));
}

TEST_CASE("an unfinished line is shown while the worker waits") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--log-line-prefix-template=> "},
        "printf 'ready? '; until [ -e " + (dir / "go").string() +
            " ]; do sleep 0.05; done; echo yes");

    CHECK(holds_within(fact_timeout, [&] {
        job.has_exited();
        return contains(job.out(), "> ready? ");
    }));
    dir.write("go", "");
    REQUIRE(job.wait_for_code() == 0);
    CHECK(job.out() == "> ready? yes\n");
}

namespace {

/// Two workers: the first begins a line, pauses until the second one's line has arrived here, and
/// ends its own.
Running job_with_pause(const TempDir& dir, const Words& options) {
    auto job = one_node(
        dir,
        Words{"--nproc-per-node=2"} + options,
        "cd " + dir.path().string() +
            "; wait_for() { until [ -e $1 ]; do sleep 0.02; done; }\n"
            "if [ $RANK = 0 ]; then printf begun; >begun; wait_for go; echo , ended; exit; fi\n"
            "wait_for begun; echo whole");
    job.wait_for_line("whole");
    // Waits longer than the beginning of a line is held back for a single worker.
    CHECK_FALSE(holds_within(std::chrono::milliseconds{300}, [&] {
        job.has_exited();
        return contains(job.out(), "begun");
    }));
    dir.write("go", "");
    return job;
}

}  // namespace

TEST_CASE("a line that pauses is whole, in a pipe and in JSON") {
    const TempDir dir;
    auto job = job_with_pause(dir, {"--log-line-prefix-template=${rank}> "});
    REQUIRE(job.wait_for_code() == 0);
    CHECK(job.out() == "1> whole\n0> begun, ended\n");

    const TempDir other;
    auto json = job_with_pause(other, {"--log-format=json"});
    REQUIRE(json.wait_for_code() == 0);
    const auto lines = lines_in_order(json.out());
    REQUIRE(lines.size() == 2);
    CHECK(nlohmann::json::parse(lines[0]).at("message") == "whole");
    CHECK(nlohmann::json::parse(lines[1]).at("message") == "begun, ended");
}

TEST_CASE("on a terminal the beginning of a line is shown, and one that was ended comes again") {
    const TempDir dir;
    Running::Options how;
    how.has_terminal = true;
    how.arguments = {
        "--standalone",
        "--nproc-per-node=2",
        "--log-line-prefix-template=${rank}> ",
        "--no-python",
        dir.write_script(
            "worker",
            "#!/bin/sh\ncd " + dir.path().string() +
                "; wait_for() { until [ -e $1 ]; do sleep 0.02; done; }\n"
                "if [ $RANK = 0 ]; then printf begun; wait_for go; echo , ended; exit; fi\n"
                "wait_for seen; echo whole; >go\n")};
    Running job(program("ddprun"), how);
    REQUIRE(holds_within(fact_timeout, [&] {
        job.has_exited();
        return contains(job.out(), "0> begun");
    }));
    dir.write("seen", "");

    REQUIRE(job.wait_for_code() == 0);
    CHECK(contains(job.out(), "0> begun\r\n1> whole\r\n0> begun, ended\r\n"));
}

TEST_CASE("only the ranks that were asked for are on the console") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--nproc-per-node=3",
         "-t",
         "1:1,2:1",
         "--local-ranks-filter=2",
         "--log-dir=" + (dir / "logs").string()},
        says_both);
    REQUIRE(job.wait_for_code() == 0);

    CHECK(job.out() == "[default2]:out 2\n");
    CHECK_FALSE(contains(job.err(), "err 0"));
    CHECK(contains(job.err(), "err 2\n"));
    const auto files = files_of_job(dir / "logs");
    REQUIRE(files.size() == 2);
    CHECK(files.begin()->second == "out 1\n");
}

TEST_CASE("every line is JSON, whatever the workers write") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"--nproc-per-node=2",
         "--log-format=json",
         "--log-level=info",
         "-r",
         "1",
         "--log-dir=" + (dir / "logs").string()},
        "printf 'a \"b\" \\377\\033[0m\\n\\n'; head -c 40000 /dev/zero | tr '\\0' y; "
        "printf 'no end' >&2");
    REQUIRE(job.wait_for_code() == 0);

    CHECK(job.out().empty());
    int worker_lines = 0;
    for (const auto& line : lines_in_order(job.err())) {
        CAPTURE(line);
        const auto parsed = nlohmann::json::parse(line);
        CHECK(parsed.contains("time"));
        CHECK(parsed.at("host") == host());
        if (parsed.at("stream") == "ddprun") continue;
        CHECK(parsed.at("stream") == "stderr");
        CHECK(parsed.at("message") == "no end");
        ++worker_lines;
    }
    CHECK(worker_lines == 2);
    for (const auto& file : files_of_job(dir / "logs")) {
        CAPTURE(file.first);
        const auto lines = lines_in_order(file.second);
        REQUIRE(lines.size() >= 5);
        CHECK(nlohmann::json::parse(lines[0]).at("message") == "a \"b\" \xEF\xBF\xBD\033[0m");
        CHECK(nlohmann::json::parse(lines[1]).at("message") == "");
        // Three parts, or more on a machine so busy that the line seemed abandoned.
        std::string whole;
        for (std::size_t i = 2; i < lines.size(); ++i) {
            const auto part = nlohmann::json::parse(lines[i]);
            CHECK(part.at("part") == static_cast<int>(i) - 1);
            CHECK(part.contains("continues") == (i + 1 < lines.size()));
            whole += part.at("message").get<std::string>();
        }
        CHECK(whole == std::string(40000, 'y'));
    }
}

TEST_CASE("32 workers that flood at once lose nothing, and every line is whole") {
    const TempDir dir;
    constexpr int workers = 32;
    constexpr long lines = 2'000;
    constexpr std::size_t width = 120;
    Running job{
        program("ddprun"),
        {"--standalone",
         "--nproc-per-node=" + std::to_string(workers),
         "-t",
         "3",
         "--log-dir=" + (dir / "logs").string(),
         "--no-python",
         stub("flood"),
         std::to_string(lines),
         std::to_string(width)}};
    REQUIRE(job.wait_for_code(std::chrono::seconds{90}) == 0);

    const auto files = files_of_job(dir / "logs");
    CHECK(files.size() == 2 * workers);
    for (int rank = 0; rank < workers; ++rank)
        for (const std::string stream : {"out", "err"}) {
            const auto name =
                "round-0/" + host() + "/rank-" + std::to_string(rank) + "/std" + stream + ".log";
            CAPTURE(name);
            // Not compared in one expression: a failure message of megabytes would be useless.
            const bool is_same =
                files.count(name) == 1 && files.at(name) == flood_text(rank, stream, lines, width);
            CHECK(is_same);
        }

    // On the console the lines of each worker are in their order.
    std::map<std::string, long> next;
    long odd_lines = 0;
    for (const auto& line : lines_in_order(job.out())) {
        const auto number = next[line.substr(0, line.find(':'))]++;
        const bool is_whole = contains(line, " out " + std::to_string(number) + " ") &&
                              line.size() == line.find(':') + width;
        if (!is_whole) ++odd_lines;
    }
    CHECK(odd_lines == 0);
    CHECK(next.size() == workers);
    for (const auto& [prefix, count] : next)
        CHECK(count == lines);
}

TEST_CASE("a worker that closes its output, or leaves a child that holds it, ends as it likes") {
    const TempDir dir;
    auto job = one_node(
        dir,
        {"-t", "3", "--log-dir=" + (dir / "logs").string()},
        "echo before; setsid sleep 1000 & exec >&- 2>&-; exit 0");

    CHECK(job.wait_for_code() == 0);
    CHECK(job.out() == "[default0]:before\n");
    CHECK(no_descendants_left());
}

TEST_CASE("files of earlier rounds stay, and latest points to the last one") {
    const TempDir dir;
    const auto logs = dir / "logs";
    auto job = one_node(
        dir,
        {"--max-restarts=1", "-r", "1", "--log-dir=" + logs.string()},
        "echo round $DDPRUN_ROUND; [ $DDPRUN_ROUND = 1 ]");
    REQUIRE(job.wait_for_code() == 0);

    REQUIRE(fs::is_symlink(logs / "latest"));
    CHECK(fs::read_symlink(logs / "latest").filename() == "round-1");
    const auto file = fs::path{host()} / "rank-0" / "stdout.log";
    CHECK(read_file(logs / "latest" / file) == "round 1\n");
    CHECK(
        read_file(fs::canonical(logs / "latest").parent_path() / "round-0" / file) == "round 0\n");
}

TEST_CASE("a file that is full is followed by another, at the end of a line, and old ones go") {
    const TempDir dir;
    const auto run = [&](const std::string& folder, const Words& keep) {
        Running job{
            program("ddprun"),
            Words{"--standalone", "-r", "1", "--log-dir=" + (dir / folder).string()} + keep +
                Words{"--log-max-size=4K", "--no-python", stub("flood"), "200", "100"}};
        REQUIRE(job.wait_for_code() == 0);
        std::map<std::string, std::string> files;
        for (const auto& [name, text] : files_of_job(dir / folder))
            files[name.substr(name.rfind('/') + 1)] = text;
        return files;
    };

    const auto all = run("all", {});
    const Words order{"stdout.log.1", "stdout.log.2", "stdout.log.3", "stdout.log.4", "stdout.log"};
    std::string whole;
    for (const auto& name : order) {
        CAPTURE(name);
        REQUIRE(all.count(name) == 1);
        CHECK(all.at(name).size() <= 4200);
        CHECK(all.at(name).ends_with("x\n"));
        whole += all.at(name);
    }
    CHECK(all.size() == order.size());
    CHECK(whole == flood_text(0, "out", 200, 100));

    const auto kept = run("kept", {"--log-keep=1"});
    REQUIRE(names_of(kept) == Words{"stdout.log", "stdout.log.4"});
    CHECK(whole.ends_with(kept.at("stdout.log.4") + kept.at("stdout.log")));
}

TEST_CASE("a folder for logs that cannot be used is a mistake, said before anything starts") {
    const TempDir dir;
    const auto file = dir.write("file", "");
    auto job = one_node(dir, {"-r", "3", "--log-dir=" + file}, "touch " + (dir / "ran").string());

    CHECK(job.wait_for_code() == 2);
    CHECK(contains(job.err(), "--log-dir: '" + file + "': is a file"));
    CHECK_FALSE(fs::exists(dir / "ran"));
}

TEST_CASE("a full disk is said once for each file, and the job goes on") {
    const TempDir dir;
    const SmallDisk disk(dir.path());
    if (!disk.why_not().empty()) return skip(disk.why_not());
    Running job{
        program("ddprun"),
        {"--standalone",
         "--nproc-per-node=2",
         "-r",
         "1",
         "--log-dir=" + (dir / "logs").string(),
         "--no-python",
         stub("flood"),
         "10000",
         "100"}};

    CHECK(job.wait_for_code() == 0);
    std::size_t said = 0;
    for (const auto& line : lines_in_order(job.err()))
        if (contains(line, "log.failed")) ++said;
    CHECK(said == 2);
}

TEST_CASE("a disk without room for another folder is said to be full, not to lack the file") {
    const TempDir dir;
    const SmallDisk disk(dir.path(), "size=256k,nr_inodes=2");
    if (!disk.why_not().empty()) return skip(disk.why_not());
    Running job{
        program("ddprun"),
        {"--standalone",
         "-r",
         "1",
         "--log-dir=" + (dir / "logs").string(),
         "--no-python",
         stub("exit_with"),
         "0"}};

    CHECK(job.wait_for_code() == 0);
    CHECK(contains(job.err(), "log.failed"));
    CHECK(contains(job.err(), "No space left on device"));
    CHECK_FALSE(contains(job.err(), "No such file"));
}

TEST_CASE("the end of a redirected stderr is in the report") {
    const TempDir dir;
    auto job = one_node(
        dir, {"-r", "3", "--log-dir=" + (dir / "logs").string()}, "echo the reason >&2; exit 3");

    CHECK(job.wait_for_code() == 3);
    CHECK(contains(job.err(), "the reason"));
}
