// SPDX-License-Identifier: Apache-2.0
// Where NCCL is searched for, and as much of the real NCCL as works without a GPU.
#include "tests/process/support/skip.hpp"
#include "tests/process/support/temp_dir.hpp"
#include "worker_sdk/src/transports/nccl/library.hpp"
#include "worker_sdk/src/transports/nccl/nccl_functions.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <map>
#include <string>
#include <variant>

using namespace ddprun::nccl;
using ddprun::environment::Lookup;
using ddprun::test::TempDir;

namespace {

Lookup environment(const std::map<std::string, std::string>& variables) {
    return [variables](const char* name) -> const char* {
        static thread_local std::string value;
        const auto found = variables.find(name);
        if (found == variables.end()) return nullptr;
        value = found->second;
        return value.c_str();
    };
}

const std::string real_nccl = std::string{DDPRUN_CUDA_DEPS} + "/nccl/lib/libnccl.so.2";

}  // namespace

TEST_CASE("nccl: the copy that the process has comes first, then the linker's") {
    const auto places = nccl_places(environment({}));

    REQUIRE(places.size() == 2);
    CHECK(places[0] == Place{"libnccl.so.2", true, false});
    CHECK(places[1] == Place{"libnccl.so.2", false, false});
}

TEST_CASE("nccl: where DDPRUN_NCCL names one, nothing else is opened in its place") {
    const auto places = nccl_places(environment({{"DDPRUN_NCCL", "/a/b"}, {"VIRTUAL_ENV", "/v"}}));

    REQUIRE(places.size() == 2);
    CHECK(places[0].only_loaded);
    CHECK(places[1] == Place{"/a/b", false, true});
}

TEST_CASE("nccl: the packages of the active Python environment come last") {
    const TempDir folder;
    const auto lib = folder / "lib/python3.12/site-packages/nvidia/nccl/lib";
    std::filesystem::create_directories(lib);
    folder.write("lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", "");

    for (const auto* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        const auto places = nccl_places(environment({{variable, folder.path()}}));
        REQUIRE(places.size() == 3);
        CHECK(places[2] == Place{lib / "libnccl.so.2", false, false});
    }
    folder.write("lib/libnccl.so.2", "");
    const auto places = nccl_places(environment({{"CONDA_PREFIX", folder.path()}}));
    REQUIRE(places.size() == 4);
    CHECK(places[2] == Place{folder / "lib/libnccl.so.2", false, false});
}

TEST_CASE("nccl: a file that is no NCCL is refused with the missing function") {
    const auto opened = NcclFunctions::open(environment({{"DDPRUN_NCCL", "libm.so.6"}}));

    REQUIRE(std::holds_alternative<ddprun::groups::GroupError>(opened));
    const auto& text = std::get<ddprun::groups::GroupError>(opened).text;
    CHECK(text.find("libm.so.6 lacks ncclGetVersion") != std::string::npos);
    CHECK(text.find("2.18.0 or newer") != std::string::npos);
}

TEST_CASE("nccl: the real library makes ids without a GPU, or reports that it needs one") {
    if (!std::filesystem::exists(real_nccl))
        return ddprun::test::skip_even_as_root(
            "there is no " + real_nccl + " (scripts/cuda_deps.sh nccl)");
    ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    const auto opened = NcclFunctions::open(environment({{"DDPRUN_NCCL", real_nccl}}));
    REQUIRE(std::holds_alternative<NcclFunctions>(opened));
    const auto& nccl = std::get<NcclFunctions>(opened);
    CHECK(nccl.version == 22809);
    CHECK(bool(nccl.comm_init_rank_scalable));
    CHECK(bool(nccl.mem_alloc));

    abi::UniqueId first{};
    abi::UniqueId second{};
    CHECK(nccl.get_unique_id(&first) == abi::Result::success);
    CHECK(nccl.get_unique_id(&second) == abi::Result::success);
    CHECK(::memcmp(first.bytes, second.bytes, sizeof first.bytes) != 0);
    CHECK(nccl.describe(abi::Result::remote_error).find("ncclRemoteError") != std::string::npos);
}

TEST_CASE("nccl: an environment in which NCCL waits for ever is refused") {
    const auto refusal_of = [](const std::string& value) {
        return refuse_blocking(environment({{"NCCL_COMM_BLOCKING", value}}));
    };
    for (const auto* value : {"1", "0x1"}) {
        const auto refused = refusal_of(value);
        REQUIRE(refused);
        CHECK(refused->kind == ddprun::groups::GroupError::Kind::usage);
        CHECK(refused->text.find("NCCL_COMM_BLOCKING=") == 0);
    }
    for (const auto* value : {"", "0", "-2", "no"})
        CHECK_FALSE(refusal_of(value));
    CHECK_FALSE(refuse_blocking(environment({})));
}
