// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/worker_command.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <map>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

constexpr PathLook program{true, false, true, true};
constexpr PathLook compiled{true, false, true, true, true};
constexpr PathLook text_file{true, false, true, false};
constexpr PathLook secret_file{true, false, false, false};
constexpr PathLook folder{true, true, true, true};

/// A made-up machine: what lies where, and what the person's shell exported.
struct Machine {
    std::map<std::string, PathLook> files;
    Environment environment{{"PATH", "/usr/bin:/bin"}};
    CommandRequest request{{"train.py"}, false, false, "", "/opt/ddprun/bin/ddprun"};

    Result<WorkerCommand> find() const {
        return find_worker_command(request, environment, [this](const std::string& path) {
            const auto found = files.find(path);
            return found == files.end() ? PathLook{} : found->second;
        });
    }
    std::string python() const {
        const auto command = find();
        return command ? command->program + " (" + command->python_origin + ")" : "none";
    }
    std::string refusal() const {
        const auto command = find();
        return command ? "accepted" : command.error().context;
    }
    int number() const { return find().error().code.value(); }
};

/// Everything a Python could be taken from, all at once.
Machine rich_machine() {
    Machine machine;
    machine.files = {
        {"train.py", text_file},
        {"/my/python", program},
        {"/named/python", program},
        {"/opt/ddprun/bin/../pyvenv.cfg", text_file},
        {"/opt/ddprun/bin/python", program},
        {"/venv/bin/python", program},
        {"/conda/bin/python", program},
        {"/usr/bin/python3", program},
        {"/bin/python", program},
    };
    machine.environment["PYTHON_EXEC"] = "/named/python";
    machine.environment["VIRTUAL_ENV"] = "/venv";
    machine.environment["CONDA_PREFIX"] = "/conda";
    machine.request.python = "/my/python";
    return machine;
}

}  // namespace

TEST_CASE("the nearest Python is taken, and the choice says why") {
    auto machine = rich_machine();
    CHECK(machine.python() == "/my/python (--python)");
    machine.request.python.clear();
    CHECK(machine.python() == "/named/python (PYTHON_EXEC)");
    machine.environment.erase("PYTHON_EXEC");
    CHECK(machine.python() == "/opt/ddprun/bin/python (beside ddprun, in its environment)");
    machine.files.erase("/opt/ddprun/bin/../pyvenv.cfg");
    CHECK(machine.python() == "/venv/bin/python ($VIRTUAL_ENV)");
    machine.environment.erase("VIRTUAL_ENV");
    CHECK(machine.python() == "/conda/bin/python ($CONDA_PREFIX)");
    machine.environment.erase("CONDA_PREFIX");
    CHECK(machine.python() == "/usr/bin/python3 (python3 on PATH)");
    machine.files.erase("/usr/bin/python3");
    CHECK(machine.python() == "/bin/python (python on PATH)");
    machine.files.erase("/bin/python");
    CHECK(
        machine.refusal() ==
        "no Python interpreter found in an environment or on PATH\n"
        "give one with --python, or run a program with --no-python");
    CHECK(machine.number() == ENOENT);
}

TEST_CASE("a conda environment around ddprun counts as one too") {
    auto machine = rich_machine();
    machine.request.python.clear();
    machine.environment.erase("PYTHON_EXEC");
    machine.files.erase("/opt/ddprun/bin/../pyvenv.cfg");
    machine.files["/opt/ddprun/bin/../conda-meta"] = folder;

    CHECK(machine.python() == "/opt/ddprun/bin/python (beside ddprun, in its environment)");
}

TEST_CASE("an environment whose Python is gone is passed over") {
    auto machine = rich_machine();
    machine.request.python.clear();
    machine.environment.erase("PYTHON_EXEC");
    machine.files["/opt/ddprun/bin/python"] = text_file;
    machine.files.erase("/venv/bin/python");

    CHECK(machine.python() == "/conda/bin/python ($CONDA_PREFIX)");
}

TEST_CASE("a Python given by name is that one or an error") {
    auto machine = rich_machine();
    machine.request.python = "/gone/python";
    CHECK(
        machine.refusal() ==
        "--python: /gone/python: not found\ngive the path of a Python interpreter");
    CHECK(machine.number() == ENOENT);
    machine.request.python = "train.py";
    CHECK(machine.number() == ENOENT);
    machine.request.python = "./train.py";
    machine.files["./train.py"] = text_file;
    CHECK(machine.number() == EACCES);
    machine.request.python = "python3";
    CHECK(machine.python() == "/usr/bin/python3 (--python)");
}

TEST_CASE("a script runs unbuffered with its arguments as they are") {
    auto machine = rich_machine();
    machine.request.words = {"train.py", "--lr", "0.1", ""};

    const auto command = machine.find();

    CHECK(
        command->arguments ==
        std::vector<std::string>{"/my/python", "-u", "train.py", "--lr", "0.1", ""});
}

TEST_CASE("a module is not looked for") {
    auto machine = rich_machine();
    machine.request.words = {"pkg.train", "x"};
    machine.request.is_module = true;

    CHECK(
        machine.find()->arguments ==
        std::vector<std::string>{"/my/python", "-u", "-m", "pkg.train", "x"});
}

TEST_CASE("a script that python could not run is found before anything is started") {
    auto machine = rich_machine();
    machine.request.words = {"gone.py"};
    CHECK(machine.number() == ENOENT);
    CHECK(machine.refusal().starts_with("gone.py: script not found\n"));

    machine.files["gone.py"] = secret_file;
    CHECK(machine.number() == EACCES);

    machine.files["gone.py"] = folder;
    CHECK(machine.number() == EISDIR);
    machine.files["gone.py/__main__.py"] = text_file;
    CHECK(machine.find().has_value());

    machine.request.words = {"-"};
    CHECK(machine.find().has_value());
}

TEST_CASE("a program is found as a shell would, and run as it was typed") {
    Machine machine;
    machine.request.is_program = true;
    machine.request.words = {"hostname", "-f"};
    machine.files["/usr/bin/hostname"] = text_file;
    machine.files["/bin/hostname"] = program;
    CHECK(*machine.find() == WorkerCommand{"/bin/hostname", {"hostname", "-f"}, ""});

    machine.request.words = {"./a.out"};
    machine.files["./a.out"] = program;
    CHECK(*machine.find() == WorkerCommand{"./a.out", {"./a.out"}, ""});
}

TEST_CASE("a compiled program needs no word that it is one") {
    auto machine = rich_machine();
    machine.request.words = {"bin/train", "--lr", "0.1"};
    machine.files["bin/train"] = compiled;
    CHECK(*machine.find() == WorkerCommand{"bin/train", {"bin/train", "--lr", "0.1"}, ""});

    machine.request.words = {"train"};
    machine.files["train"] = compiled;
    CHECK(*machine.find() == WorkerCommand{"./train", {"train"}, ""});

    machine.files["train"].is_executable = false;
    CHECK(machine.refusal() == "train: is a compiled program that cannot be executed\nchmod +x it");
    CHECK(machine.number() == EACCES);
}

TEST_CASE("a program that is missing, a folder or not executable is named with what to do") {
    Machine machine;
    machine.request.is_program = true;
    machine.request.words = {"nosuch"};
    CHECK(
        machine.refusal() ==
        "nosuch: program not found on PATH\n"
        "give its path, with a slash if it lies in this folder");
    CHECK(machine.number() == ENOENT);

    machine.files["/bin/nosuch"] = text_file;
    CHECK(machine.number() == EACCES);

    machine.request.words = {"./sub"};
    CHECK(machine.number() == ENOENT);
    machine.files["./sub"] = folder;
    CHECK(machine.number() == EISDIR);
}

TEST_CASE("an empty entry of PATH is the current folder") {
    Machine machine;
    machine.request.is_program = true;
    machine.request.words = {"tool"};
    machine.environment["PATH"] = "/bin:";
    machine.files["./tool"] = program;

    CHECK(machine.find()->program == "./tool");
}
