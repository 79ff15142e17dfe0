// SPDX-License-Identifier: Apache-2.0
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/skip.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>

using namespace ddprun::test;

namespace {

namespace fs = std::filesystem;

const std::string system_python = "/usr/bin/python3";

/// A machine with a plain Python first on PATH, and with the environments (a venv and a conda
/// environment) in which PyTorch would be.
class Machine {
public:
    Machine() {
        fs::create_directories(dir_ / "plain");
        fs::create_directories(dir_ / "conda/bin");
        fs::create_directories(dir_ / "conda/conda-meta");
        for (const auto* python : {"plain/python3", "conda/bin/python", "conda/bin/python3"})
            fs::create_symlink(system_python, dir_ / python);
        has_venv_ =
            Running(system_python, {"-m", "venv", "--without-pip", path("venv")}).wait_for_code() ==
            0;
        for (const auto* folder : {"venv/bin", "conda/bin"}) {
            fs::create_symlink(program("ddprun"), dir_ / folder / "ddprun");
            // Written like pip writes programs: torchrun starts its workers with sys.executable.
            dir_.write_script(
                std::string{folder} + "/torchrun",
                "#!" + path(folder) + "/python\nimport sys\nprint(sys.executable)\n");
        }
        script_ = dir_.write_script("train.py", "import sys\nprint(sys.executable)\n");
    }

    bool has_venv() const { return has_venv_; }
    std::string path(const std::string& name) const { return (dir_ / name).string(); }

    /// The output of `command`; `path` follows the plain Python in PATH, or precedes it if
    /// `is_first`.
    std::string out_of(
        const std::string& command,
        const std::string& folder,
        std::map<std::string, std::string> variables = {},
        bool is_first = false) const {
        const auto front = is_first ? folder + ":" + path("plain") : path("plain") + ":" + folder;
        variables["PATH"] = front + ":/usr/bin:/bin";
        Running::Options how;
        how.has_clean_environment = true;
        how.environment = std::move(variables);
        how.arguments = {"-c", command};
        Running shell("/bin/sh", how);
        CHECK_MESSAGE(shell.wait_for_code() == 0, shell.err());
        return shell.out();
    }
    std::string job(const std::string& ddprun) const {
        return "'" + ddprun + "' --standalone " + script_;
    }

private:
    TempDir dir_;
    std::string script_;
    bool has_venv_ = false;
};

}  // namespace

TEST_CASE("a worker's sys.executable is what the environment's torchrun would use") {
    if (::access(system_python.c_str(), X_OK) != 0) return skip_even_as_root("no " + system_python);
    const Machine machine;
    const auto elsewhere = program("ddprun");
    if (machine.has_venv()) {
        const auto venv = machine.path("venv");
        const auto expected = machine.out_of("torchrun", venv + "/bin");
        CHECK(expected == venv + "/bin/python\n");
        // Activated; by path; by name; and under `uv run`, which puts the environment first.
        CHECK(
            machine.out_of(machine.job(elsewhere), venv + "/bin", {{"VIRTUAL_ENV", venv}}) ==
            expected);
        CHECK(machine.out_of(machine.job(venv + "/bin/ddprun"), "/usr/bin") == expected);
        CHECK(machine.out_of(machine.job("ddprun"), venv + "/bin") == expected);
        CHECK(
            machine.out_of(machine.job(elsewhere), venv + "/bin", {{"VIRTUAL_ENV", venv}}, true) ==
            expected);
    }
    const auto conda = machine.path("conda");
    const auto expected = machine.out_of("torchrun", conda + "/bin");
    CHECK(expected == conda + "/bin/python\n");
    CHECK(
        machine.out_of(machine.job(elsewhere), conda + "/bin", {{"CONDA_PREFIX", conda}}) ==
        expected);
    CHECK(machine.out_of(machine.job(conda + "/bin/ddprun"), "/usr/bin") == expected);
    CHECK(machine.out_of(machine.job("ddprun"), conda + "/bin") == expected);
}

TEST_CASE("a worker without a module is reported with the interpreter and why it was chosen") {
    if (::access(system_python.c_str(), X_OK) != 0) return skip_even_as_root("no " + system_python);
    const TempDir dir;
    const auto script = dir.write_script("train.py", "import no_such_module\n");
    for (const Words& command : {Words{script}, Words{"-m", "no_such_module"}}) {
        Running job(
            program("ddprun"), Words{"--standalone", "--python=" + system_python} + command);
        CHECK(job.wait_for_code() == 1);
        CHECK(contains(job.err(), "No module named"));
        CHECK(contains(job.err(), system_python));
        CHECK(contains(job.err(), "--python"));
    }
    // On a terminal only the worker's own output has the error.
    Running::Options how;
    how.has_terminal = true;
    how.arguments = {"--standalone", "--python=" + system_python, script};
    Running job(program("ddprun"), how);
    CHECK(job.wait_for_code() == 1);
    CHECK(contains(job.out(), "run by " + system_python + " (--python)"));
}
