// SPDX-License-Identifier: Apache-2.0
#include "agent/health/find_python.hpp"

#include "tests/unit/agent/health/fake_memory.hpp"

#include <doctest/doctest.h>

#include <elf.h>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent::health;
using ddprun::test::FakeMemory;

namespace {

std::uint32_t gnu_hash(std::string_view name) {
    std::uint32_t hash = 5381;
    for (const char c : name)
        hash = hash * 33 + static_cast<unsigned char>(c);
    return hash;
}

/// A library in memory with the symbols of an interpreter, all in one bucket.
struct FakeLibrary {
    explicit FakeLibrary(bool is_relocated, std::vector<std::string> names) {
        const auto begin = memory.add(sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr));
        const auto dynamic = memory.add(5 * sizeof(Elf64_Dyn));
        const auto hash = memory.add(16 + 8 + 4 + 4 * names.size());
        const auto symbols = memory.add((names.size() + 1) * sizeof(Elf64_Sym));
        std::string texts(1, '\0');
        version = memory.add(8);
        memory.put(version, std::uint64_t{0x030b02f0});

        Elf64_Ehdr header{};
        for (int i = 0; i < SELFMAG; ++i)
            header.e_ident[i] = static_cast<unsigned char>(ELFMAG[i]);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_phoff = sizeof header;
        header.e_phnum = 2;
        header.e_phentsize = sizeof(Elf64_Phdr);
        memory.put(begin, header);
        Elf64_Phdr load{};
        load.p_type = PT_LOAD;
        memory.put(begin + sizeof header, load);
        Elf64_Phdr table{};
        table.p_type = PT_DYNAMIC;
        table.p_vaddr = dynamic - begin;
        table.p_memsz = 5 * sizeof(Elf64_Dyn);
        memory.put(begin + sizeof header + sizeof load, table);

        memory.put(hash, std::uint32_t{1});
        memory.put(hash + 4, std::uint32_t{1});
        memory.put(hash + 8, std::uint32_t{1});
        memory.put(hash + 24, std::uint32_t{1});
        for (std::uint32_t i = 0; i < names.size(); ++i) {
            const auto bits = gnu_hash(names[i]) & ~1U;
            const bool is_last = i + 1 == names.size();
            memory.put(hash + 28 + 4 * std::uint64_t{i}, bits | (is_last ? 1U : 0U));
            Elf64_Sym symbol{};
            symbol.st_name = static_cast<std::uint32_t>(texts.size());
            symbol.st_shndx = 1;
            symbol.st_value = (names[i] == "Py_Version" ? version : 0x777000 + i) - begin;
            memory.put(symbols + (i + 1) * sizeof symbol, symbol);
            texts += names[i] + '\0';
        }
        const auto strings = memory.add(texts.size() + 64);
        memory.put_text(strings, texts);
        const auto bias = is_relocated ? 0 : begin;
        memory.put(dynamic, Elf64_Dyn{DT_GNU_HASH, {hash - bias}});
        memory.put(dynamic + 16, Elf64_Dyn{DT_SYMTAB, {symbols - bias}});
        memory.put(dynamic + 32, Elf64_Dyn{DT_STRTAB, {strings - bias}});
        std::ostringstream text;
        text << std::hex << begin << "-" << begin + memory.size() << " r--p 00000000 fe:00 12   ";
        range = text.str();
    }

    std::string maps(const std::string& path) const {
        return "1000-2000 r-xp 00000000 fe:00 11   /usr/bin/tool\n"
               "3000-4000 rw-p 00000000 00:00 0\n" +
               range + path + "\n";
    }

    FakeMemory memory;
    std::uint64_t version = 0;
    std::string range;
};

const std::vector<std::string> symbols_3_11{"Py_Version", "PyCode_Type", "_PyRuntime"};

}  // namespace

TEST_CASE("an interpreter is found in a library that is named so, relocated or not") {
    for (const bool is_relocated : {true, false}) {
        FakeLibrary library(is_relocated, symbols_3_11);
        const auto found =
            find_python(library.maps("/opt/lib/libpython3.11.so.1.0"), library.memory.reader());
        REQUIRE(found.interpreter);
        CHECK(*found.interpreter == PythonInterpreter{0x777002, 0x777001, 0x030b02f0});
    }
}

TEST_CASE("an interpreter without a version is an older one") {
    FakeLibrary library(true, {"PyCode_Type", "_PyRuntime"});
    const auto found = find_python(library.maps("/usr/bin/python3.10"), library.memory.reader());
    REQUIRE(found.interpreter);
    CHECK(found.interpreter->version == 0);
}

TEST_CASE("extension modules are not looked into, and a program without Python has none") {
    FakeLibrary library(true, symbols_3_11);
    const auto found = find_python(
        library.maps("/opt/_json.cpython-311-x86_64-linux-gnu.so"), library.memory.reader());
    CHECK_FALSE(found.interpreter);
    CHECK(found.why_not == "no Python interpreter");

    FakeLibrary other(true, {"main", "PyCode_Typf"});
    CHECK_FALSE(find_python(other.maps("/usr/bin/python3"), other.memory.reader()).interpreter);
}

TEST_CASE("a map that is none has no files") {
    FakeMemory memory;
    for (const char* maps :
         {"",
          "\n\n",
          "zz-yy r--p 0 0 0 /usr/bin/python",
          "2000-1000 r--p 0 0 0 /usr/bin/python",
          "1000 r--p",
          "1000-2000",
          "1000-2000 r--p 00000000 fe:00 1 [heap]"})
        CHECK(find_python(maps, memory.reader()).why_not == "no Python interpreter");
}

TEST_CASE("any file in memory is an interpreter or none, within bounds") {
    const FakeLibrary whole(true, symbols_3_11);
    std::mt19937 random(3);  // NOLINT: the same damage every time
    for (int i = 0; i < 5'000; ++i) {
        auto library = whole;
        for (int count = 0; count < 3; ++count)
            library.memory.at(random() % library.memory.size()) = static_cast<std::byte>(random());
        const auto maps = library.maps("/usr/bin/python3");
        const auto found = find_python(maps, library.memory.reader());
        CHECK(found.interpreter.has_value() == found.why_not.empty());
        CHECK(library.memory.reads < 10'000);
    }
}
