// SPDX-License-Identifier: Apache-2.0
#include "agent/report/report_frame.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

using namespace ddprun::agent;

namespace {

const FramedReport report{7, false, "{\"exit_code\":7}\n", "ddprun: job failed\n  exit code 7\n"};

/// The remaining output when the bytes arrive in pieces of this size.
std::string read_in_pieces(FrameReader& reader, std::string_view bytes, std::size_t size) {
    std::string output;
    for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size())))
        output += reader.append(bytes.substr(0, size));
    return output + reader.finish();
}

}  // namespace

TEST_CASE("a report is taken out of the output, however it is split") {
    const auto bytes = "no newline" + framed("t0", report) +
                       "after\x1e"
                       "ddprun-report t1 ";
    for (std::size_t size = 1; size <= bytes.size(); ++size) {
        CAPTURE(size);
        FrameReader reader("t0");
        CHECK(
            read_in_pieces(reader, bytes, size) ==
            "no newlineafter\x1e"
            "ddprun-report t1 ");
        CHECK(reader.report() == report);
    }
}

TEST_CASE("a refusal keeps its kind, and a success has no screen") {
    for (const auto& one :
         {FramedReport{2, true, "{}\n", "ddprun: wrong\n"}, FramedReport{0, false, "{}\n", ""}}) {
        FrameReader reader("t");
        CHECK(reader.append(framed("t", one)).empty());
        CHECK(reader.report() == one);
    }
}

TEST_CASE("a mark without a length is no report, and a report that is cut off is none") {
    FrameReader reader("t");
    CHECK(
        reader.append("\x1e"
                      "ddprun-report t wrong\nmore") == "wrong\nmore");
    CHECK_FALSE(reader.report());
    const auto bytes = framed("t", report);
    CHECK(reader.append(std::string_view{bytes}.substr(0, bytes.size() - 1)).empty());
    reader.finish();
    CHECK_FALSE(reader.report());
}

TEST_CASE("output is handed on at once unless it may be the begin of a mark") {
    FrameReader reader("t");
    CHECK(reader.append("epoch 1") == "epoch 1");
    CHECK(
        reader.append("x\x1e"
                      "ddpr") == "x");
    CHECK(
        reader.append("awn") ==
        "\x1e"
        "ddprawn");
}

TEST_CASE("what claims to be larger than a report can be is output, and is not kept") {
    const std::string mark =
        "\x1e"
        "ddprun-report t ";
    for (const std::string lengths : {"1048577 0", "0 1048577", "4294967295 4294967295"}) {
        CAPTURE(lengths);
        FrameReader reader("t");
        CHECK(reader.append(mark + "0 0 " + lengths + "\nmore") == "0 0 " + lengths + "\nmore");
        CHECK(reader.append(framed("t", report)).empty());
        CHECK(reader.report() == report);
    }
    FramedReport largest{1, false, std::string(1'048'576, 'j'), std::string(1'048'576, 's')};
    FrameReader reader("t");
    CHECK(reader.append(framed("t", largest)).empty());
    CHECK(reader.report() == largest);
}
