// SPDX-License-Identifier: Apache-2.0
#include "agent/health/find_python.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace ddprun::agent::health {
namespace {

/// A file in the memory of a process.
struct MappedFile {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::string_view path;
};

/// One line of /proc/PID/maps: "begin-end perms offset device inode path".
struct MapsLine {
    MappedFile file;
    bool is_beginning = false;
};

std::string_view take_word(std::string_view& line) {
    const auto word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return word;
}

std::optional<MapsLine> maps_line(std::string_view line) {
    const auto range = take_word(line);
    take_word(line);
    const auto offset = whole_number<std::uint64_t>(take_word(line), 16);
    take_word(line);
    take_word(line);
    const auto dash = range.find('-');
    if (dash == std::string_view::npos || !line.starts_with('/')) return std::nullopt;
    const auto begin = whole_number<std::uint64_t>(range.substr(0, dash), 16);
    const auto end = whole_number<std::uint64_t>(range.substr(dash + 1), 16);
    if (!begin || !end || *begin >= *end || !offset) return std::nullopt;
    return MapsLine{{*begin, *end, line}, *offset == 0};
}

/// Excludes Python's extension modules, of which there are hundreds
/// ("_json.cpython-311-x86_64-linux-gnu.so").
bool may_be_python(std::string_view path) {
    const auto name = path.substr(path.rfind('/') + 1);
    return name.starts_with("python") || name.starts_with("libpython");
}

/// The program, which is mapped first, and files that may contain an interpreter.
std::vector<MappedFile> candidates_in(std::string_view maps) {
    std::vector<MappedFile> files;
    while (!maps.empty() && files.size() < limits::max_python_candidates) {
        const auto text = maps.substr(0, maps.find('\n'));
        maps.remove_prefix(std::min(text.size() + 1, maps.size()));
        const auto line = maps_line(text);
        if (!line) continue;
        if (!files.empty() && files.back().path == line->file.path)
            files.back().end = std::max(files.back().end, line->file.end);
        else if (line->is_beginning && (files.empty() || may_be_python(line->file.path)))
            files.push_back(line->file);
    }
    return files;
}

/// The dynamic symbols of an ELF file as it is in memory.
class Symbols {
public:
    Symbols(const MappedFile& file, const ReadMemory& read) : file_(file), read_(read) {}

    /// Must be called first. False: there are no readable symbols.
    bool open() {
        Elf64_Ehdr header{};
        if (!get(file_.begin, header)) return false;
        if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
            header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
            return false;
        return read_segments(header) && read_dynamic() && read_hash_header();
    }

    std::optional<std::uint64_t> address_of(std::string_view name) const {
        const auto hash = hash_of(name);
        std::uint32_t index = 0;
        if (!get(buckets_ + std::uint64_t{hash % bucket_count_} * sizeof index, index) ||
            index < first_symbol_)
            return std::nullopt;
        for (std::size_t i = 0; i < limits::max_symbol_chain; ++i, ++index) {
            std::uint32_t chained = 0;
            if (!get(chains_ + std::uint64_t{index - first_symbol_} * sizeof chained, chained))
                return std::nullopt;
            if ((chained | 1) == (hash | 1))
                if (const auto address = if_named(index, name)) return address;
            if ((chained & 1) != 0) return std::nullopt;
        }
        return std::nullopt;
    }

private:
    template <class Value>
    bool get(std::uint64_t address, Value& value) const {
        return read_(address, std::as_writable_bytes(std::span{&value, 1}));
    }

    /// Determines the load bias, and where the dynamic section is.
    bool read_segments(const Elf64_Ehdr& header) {
        constexpr int most_segments = 64;
        if (header.e_phentsize != sizeof(Elf64_Phdr)) return false;
        bool has_bias = false;
        for (int i = 0; i < std::min<int>(header.e_phnum, most_segments); ++i) {
            Elf64_Phdr segment{};
            const auto at = static_cast<std::uint64_t>(i) * sizeof segment;
            if (!get(file_.begin + header.e_phoff + at, segment)) return false;
            if (segment.p_type == PT_LOAD && segment.p_offset == 0) {
                bias_ = file_.begin - segment.p_vaddr;
                has_bias = true;
            }
            if (segment.p_type == PT_DYNAMIC) {
                dynamic_ = segment.p_vaddr;
                dynamic_count_ = segment.p_memsz / sizeof(Elf64_Dyn);
            }
        }
        dynamic_ += bias_;
        return has_bias && dynamic_count_ > 0;
    }

    bool read_dynamic() {
        constexpr std::uint64_t most_entries = 128;
        for (std::uint64_t i = 0; i < std::min(dynamic_count_, most_entries); ++i) {
            Elf64_Dyn entry{};
            if (!get(dynamic_ + i * sizeof entry, entry)) return false;
            if (entry.d_tag == DT_NULL) return hash_ != 0 && symbols_ != 0 && names_ != 0;
            if (entry.d_tag == DT_GNU_HASH) hash_ = moved(entry.d_un.d_ptr);
            if (entry.d_tag == DT_SYMTAB) symbols_ = moved(entry.d_un.d_ptr);
            if (entry.d_tag == DT_STRTAB) names_ = moved(entry.d_un.d_ptr);
        }
        return false;
    }

    /// glibc has added the bias to these entries, musl has not.
    std::uint64_t moved(std::uint64_t address) const {
        const bool is_moved = address >= file_.begin && address < file_.end;
        return is_moved ? address : address + bias_;
    }

    bool read_hash_header() {
        // The number of buckets, the first symbol in the table, the number of 8-byte words in the
        // filter, and its shift.
        std::array<std::uint32_t, 4> header{};
        if (!get(hash_, header) || header[0] == 0) return false;
        bucket_count_ = header[0];
        first_symbol_ = header[1];
        buckets_ = hash_ + sizeof header + std::uint64_t{header[2]} * sizeof(std::uint64_t);
        chains_ = buckets_ + std::uint64_t{bucket_count_} * sizeof(std::uint32_t);
        return true;
    }

    static std::uint32_t hash_of(std::string_view name) {
        std::uint32_t hash = 5381;
        for (const char c : name)
            hash = hash * 33 + static_cast<unsigned char>(c);
        return hash;
    }

    std::optional<std::uint64_t> if_named(std::uint32_t index, std::string_view name) const {
        Elf64_Sym symbol{};
        if (!get(symbols_ + std::uint64_t{index} * sizeof symbol, symbol)) return std::nullopt;
        std::array<char, 32> text{};
        const auto size = std::min(name.size() + 1, text.size());
        if (!read_(names_ + symbol.st_name, std::as_writable_bytes(std::span{text}.first(size))))
            return std::nullopt;
        const bool is_it = std::string_view{text.data(), size - 1} == name && text[size - 1] == 0;
        if (!is_it || symbol.st_shndx == SHN_UNDEF) return std::nullopt;
        return symbol.st_value + bias_;
    }

    const MappedFile& file_;
    const ReadMemory& read_;
    std::uint64_t bias_ = 0;
    std::uint64_t dynamic_ = 0;
    std::uint64_t dynamic_count_ = 0;
    std::uint64_t hash_ = 0;
    std::uint64_t symbols_ = 0;
    std::uint64_t names_ = 0;
    std::uint64_t buckets_ = 0;
    std::uint64_t chains_ = 0;
    std::uint32_t bucket_count_ = 0;
    std::uint32_t first_symbol_ = 0;
};

std::optional<PythonInterpreter> interpreter_in(const MappedFile& file, const ReadMemory& read) {
    Symbols symbols(file, read);
    if (!symbols.open()) return std::nullopt;
    const auto runtime = symbols.address_of("_PyRuntime");
    const auto code_type = symbols.address_of("PyCode_Type");
    if (!runtime || !code_type) return std::nullopt;
    PythonInterpreter interpreter{*runtime, *code_type, 0};
    // A constant that exists since 3.11.
    if (const auto version = symbols.address_of("Py_Version")) {
        std::uint64_t value = 0;
        if (read(*version, std::as_writable_bytes(std::span{&value, 1})))
            interpreter.version = static_cast<std::uint32_t>(value);
    }
    return interpreter;
}

}  // namespace

FoundPython find_python(std::string_view maps, const ReadMemory& read) {
    for (const auto& file : candidates_in(maps))
        if (const auto interpreter = interpreter_in(file, read)) return {interpreter, {}};
    return {std::nullopt, "no Python interpreter"};
}

}  // namespace ddprun::agent::health
