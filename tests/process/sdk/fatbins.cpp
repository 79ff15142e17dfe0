// SPDX-License-Identifier: Apache-2.0
// Checks what ddprun_add_kernels embeds into a program: machine code for each requested GPU, and
// PTX for later ones.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

extern "C" const unsigned char shapes_fatbin[];

namespace {

/// The layout that nvcc writes: a header, then entries, each with its own header.
struct FatbinHeader {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t header_bytes;
    std::uint64_t entries_bytes;
};

struct EntryHeader {
    std::uint16_t kind;  ///< 1: PTX, 2: machine code
    std::uint16_t version;
    std::uint32_t header_bytes;
    std::uint64_t content_bytes;
    std::uint32_t more[3];
    std::uint32_t capability;  ///< 90 for sm_90
};

constexpr std::string_view magic{"\x50\xed\x55\xba\x01\x00\x10\x00", 8};

template <class T>
T read(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// "sm_80 sm_90 compute_90".
std::string contents(const char* fatbin) {
    const auto header = read<FatbinHeader>(fatbin);
    const char* entry = fatbin + header.header_bytes;
    const char* const end = entry + header.entries_bytes;
    std::string machine_code;
    std::string ptx;
    while (entry < end) {
        const auto one = read<EntryHeader>(entry);
        const auto capability = std::to_string(one.capability);
        if (one.kind == 2)
            machine_code += "sm_" + capability + " ";
        else
            ptx += "compute_" + capability;
        entry += one.header_bytes + one.content_bytes;
    }
    return machine_code + ptx;
}

std::string wanted_contents() {
    std::istringstream gpus{DDPRUN_GPUS};
    std::string all;
    std::string gpu;
    while (gpus >> gpu)
        all += "sm_" + gpu + " ";
    return all + "compute_" + gpu;
}

std::string bytes_of(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("fatbins: a program contains its kernels for each GPU, and as PTX for later ones") {
    CHECK(contents(reinterpret_cast<const char*>(shapes_fatbin)) == wanted_contents());
}

TEST_CASE("fatbins: the nccl backend contains kernels for every GPU, too") {
    const auto library = bytes_of(DDPRUN_WORKER_LIBRARY);
    int found = 0;
    for (auto at = library.find(magic); at != std::string::npos; at = library.find(magic, at + 1)) {
        CHECK(contents(library.data() + at) == wanted_contents());
        ++found;
    }
    CHECK(found > 0);
}
