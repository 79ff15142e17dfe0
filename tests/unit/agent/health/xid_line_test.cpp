// SPDX-License-Identifier: Apache-2.0
#include "agent/health/xid_line.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace ddprun::agent::health;

namespace {

std::string record(const std::string& message) {
    return "4,1402,8301441723,-;" + message;
}

struct Shape {
    std::string message;
    XidLine line;
};

constexpr auto none = std::nullopt;

/// As drivers from 470 to 580 write them.
const std::vector<Shape> shapes{
    {"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
     {"0000:3b:00", 79, none, "GPU has fallen off the bus."}},
    {"NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
     {"0000:3b:00", 79, 1234, "GPU has fallen off the bus."}},
    {"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
     {"0000:3b:00", 79, none, "GPU has fallen off the bus."}},
    {"NVRM: Xid (0000:03:00): 59, 0089(2d24) 00000000 00000000",
     {"0000:03:00", 59, none, "0089(2d24) 00000000 00000000"}},
    {"NVRM: Xid (PCI:0000:01:00): 13, pid=4321, name=python, Graphics SM Warp Exception on (GPC 0, "
     "TPC 0, SM 0): Out Of Range Address",
     {"0000:01:00",
      13,
      4321,
      "Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address"}},
    {"NVRM: Xid (PCI:0000:01:00): 13, pid='<unknown>', name=<unknown>, Graphics Exception: ESR "
     "0x505730=0x1020009 0x505734=0x4",
     {"0000:01:00", 13, none, "Graphics Exception: ESR 0x505730=0x1020009 0x505734=0x4"}},
    {"NVRM: Xid (PCI:0000:c4:00 GPU-I:05): 13, pid=77, name=python3.11, Graphics Exception",
     {"0000:c4:00", 13, 77, "Graphics Exception"}},
    {"NVRM: Xid (PCI:0000:c4:00 GPU-I:05): 43, pid=77, name=python3, Ch 00000008",
     {"0000:c4:00", 43, 77, "Ch 00000008"}},
    {"NVRM: Xid (PCI:0000:07:00): 31, pid=41160, name=python, Ch 00000008, intr 00000000. MMU "
     "Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f94_8a000000. Fault is of type FAULT_PDE "
     "ACCESS_TYPE_VIRT_READ",
     {"0000:07:00",
      31,
      41160,
      "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
      "0x7f94_8a000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"}},
    {"NVRM: Xid (PCI:0000:07:00): 31, pid=9, name=a, b) c, MMU Fault",
     {"0000:07:00", 31, 9, "b) c, MMU Fault"}},
    {"NVRM: Xid (PCI:0000:07:00): 32, pid=9, name=python, Channel ID 00000010 intr0 00040000",
     {"0000:07:00", 32, 9, "Channel ID 00000010 intr0 00040000"}},
    {"NVRM: Xid (PCI:0000:07:00): 43, pid=2, name=python, Ch 00000020",
     {"0000:07:00", 43, 2, "Ch 00000020"}},
    {"NVRM: Xid (PCI:0000:07:00): 45, pid=2, name=python, Ch 00000010",
     {"0000:07:00", 45, 2, "Ch 00000010"}},
    {"NVRM: Xid (PCI:0000:07:00): 45, Ch 00000010", {"0000:07:00", 45, none, "Ch 00000010"}},
    {"NVRM: Xid (PCI:0000:8a:00): 46, pid='<unknown>', name=<unknown>, GPU stopped processing",
     {"0000:8a:00", 46, none, "GPU stopped processing"}},
    {"NVRM: Xid (PCI:0000:06:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit "
     "error (DBE) has been detected on GPU in the framebuffer at partition 6, subpartition 0.",
     {"0000:06:00",
      48,
      none,
      "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
      "partition 6, subpartition 0."}},
    {"NVRM: Xid (PCI:0000:06:00): 61, pid=0, 0cb5(3098) 00000000 00000000",
     {"0000:06:00", 61, 0, "0cb5(3098) 00000000 00000000"}},
    {"NVRM: Xid (PCI:0000:06:00): 62, pid=1422, 2027a(2027a) 00000000 00000000",
     {"0000:06:00", 62, 1422, "2027a(2027a) 00000000 00000000"}},
    {"NVRM: Xid (PCI:0000:06:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row "
     "marked for remapping, reset gpu to activate.",
     {"0000:06:00",
      63,
      none,
      "Row Remapper: New row marked for remapping, reset gpu to activate."}},
    {"NVRM: Xid (PCI:0000:06:00): 63, Dynamic Page Retirement: New page retired, reboot to "
     "activate (0x00000000000a1b2c).",
     {"0000:06:00",
      63,
      none,
      "Dynamic Page Retirement: New page retired, reboot to activate (0x00000000000a1b2c)."}},
    {"NVRM: Xid (PCI:0000:06:00): 64, pid='<unknown>', name=<unknown>, Row Remapper: Failed",
     {"0000:06:00", 64, none, "Row Remapper: Failed"}},
    {"NVRM: Xid (PCI:0000:06:00): 69, pid=3, name=python, Class Error: ChId 0008, Class 0000c6c0",
     {"0000:06:00", 69, 3, "Class Error: ChId 0008, Class 0000c6c0"}},
    {"NVRM: Xid (PCI:0000:06:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error "
     "detected on link 5(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
     {"0000:06:00",
      74,
      none,
      "NVLink: fatal error detected on link 5(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"}},
    {"NVRM: Xid (PCI:0000:06:00): 92, pid='<unknown>', name=<unknown>, High single-bit ECC error "
     "rate",
     {"0000:06:00", 92, none, "High single-bit ECC error rate"}},
    {"NVRM: Xid (PCI:0000:06:00): 94, pid=7194, name=python3, Contained: SM (0x1). RST: No, D-RST: "
     "No",
     {"0000:06:00", 94, 7194, "Contained: SM (0x1). RST: No, D-RST: No"}},
    {"NVRM: Xid (PCI:0000:06:00): 95, pid='<unknown>', name=<unknown>, Uncontained: LTC TAG "
     "(0x2,0x0). RST: Yes, D-RST: No",
     {"0000:06:00", 95, none, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"}},
    {"NVRM: Xid (PCI:0000:06:00): 109, pid=2, name=python, Ch 00000008, errorString CTX SWITCH "
     "TIMEOUT, Info 0x14c",
     {"0000:06:00", 109, 2, "Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x14c"}},
    {"NVRM: Xid (PCI:0000:06:00): 110, pid=2, Security fault",
     {"0000:06:00", 110, 2, "Security fault"}},
    {"NVRM: Xid (PCI:0008:01:00): 119, pid=2, name=nvidia-smi, Timeout after 6s of waiting for RPC "
     "response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080a0a8 0x0).",
     {"0008:01:00",
      119,
      2,
      "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 "
      "(GSP_RM_CONTROL) (0x2080a0a8 0x0)."}},
    {"NVRM: Xid (PCI:0000:06:00): 120, pid='<unknown>', name=<unknown>, GSP task timeout @ "
     "pc:0x4ad3f2e, task: 1",
     {"0000:06:00", 120, none, "GSP task timeout @ pc:0x4ad3f2e, task: 1"}},
    {"NVRM: Xid (PCI:0000:06:00): 121, pid='<unknown>', name=<unknown>, C2C Link 0 error",
     {"0000:06:00", 121, none, "C2C Link 0 error"}},
    {"NVRM: Xid (PCI:0000:06:00): 136, pid='<unknown>', name=<unknown>, Event timeout",
     {"0000:06:00", 136, none, "Event timeout"}},
    {"NVRM: Xid (PCI:0000:06:00): 140, pid='<unknown>', name=<unknown>, Unrecovered ECC error",
     {"0000:06:00", 140, none, "Unrecovered ECC error"}},
    {"NVRM: Xid (PCI:0000:06:00): 143, GPU initialization failure",
     {"0000:06:00", 143, none, "GPU initialization failure"}},
    {"NVRM: Xid (PCI:0018:01:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 09 (0x00000004 0x80000000)",
     {"0018:01:00", 145, none, "RLW_REMAP Nonfatal XC0 i0 Link 09 (0x00000004 0x80000000)"}},
    {"NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 16 (0x004505c6 0x0)",
     {"0018:01:00", 149, none, "NETIR_LINK_EVT Fatal XC0 i0 Link 16 (0x004505c6 0x0)"}},
    {"NVRM: Xid (PCI:0000:9b:00): 154, pid='<unknown>', name=<unknown>, GPU recovery action "
     "changed "
     "from 0x0 (None) to 0x1 (GPU Reset Required)",
     {"0000:9b:00",
      154,
      none,
      "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"}},
    {"NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node "
     "Reboot Required)",
     {"0000:9b:00",
      154,
      none,
      "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"}},
    {"NVRM: Xid (PCI:0000:9b:00): 155, NVLink: SW-defined error",
     {"0000:9b:00", 155, none, "NVLink: SW-defined error"}},
    // Other spellings of the address, and lines that end early.
    {"NVRM: Xid (PCI:0000:3B:00): 31, MMU Fault", {"0000:3b:00", 31, none, "MMU Fault"}},
    {"NVRM: Xid (PCI:00000000:3b:00): 31, MMU Fault", {"0000:3b:00", 31, none, "MMU Fault"}},
    {"NVRM: Xid (PCI:0000:3b:00.0): 31, MMU Fault", {"0000:3b:00", 31, none, "MMU Fault"}},
    {"NVRM: Xid (PCI:10000:3b:00): 31, MMU Fault", {"10000:3b:00", 31, none, "MMU Fault"}},
    {"NVRM: Xid (PCI:0000:3b:00): 31", {"0000:3b:00", 31, none, ""}},
    {"NVRM: Xid (PCI:0000:3b:00): 31, pid=12", {"0000:3b:00", 31, 12, ""}},
    {"NVRM: Xid (PCI:0000:3b:00): 31, pid=12, name=python", {"0000:3b:00", 31, 12, ""}}};

}  // namespace

TEST_CASE("the GPU, the code, the process and the text of an Xid are read in every known shape") {
    REQUIRE(shapes.size() >= 40);
    for (const auto& shape : shapes) {
        const auto line = xid_line(record(shape.message));
        CAPTURE(shape.message);
        REQUIRE(line);
        CHECK(line->gpu == shape.line.gpu);
        CHECK(line->code == shape.line.code);
        CHECK(line->pid == shape.line.pid);
        CHECK(line->text == shape.line.text);
    }
}

TEST_CASE("the prefix of a record may have more fields, and lines may follow") {
    const std::string message = "NVRM: Xid (PCI:0000:3b:00): 31, MMU Fault";
    const XidLine expected{"0000:3b:00", 31, none, "MMU Fault"};
    CHECK(xid_line("0,1,2,c,caller=T411;" + message) == expected);
    CHECK(
        xid_line("7,1,2,-;" + message + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n") ==
        expected);
}

TEST_CASE("what the kernel has not written as an Xid is none") {
    const std::string message = "NVRM: Xid (PCI:0000:3b:00): 31, MMU Fault";
    // A process has written it: the facility is not 0.
    CHECK_FALSE(xid_line("12,1,2,-;" + message));
    CHECK_FALSE(xid_line("-4,1,2,-;" + message));
    CHECK_FALSE(xid_line("4;" + message));
    CHECK_FALSE(xid_line("4,1,2,-"));
    CHECK_FALSE(xid_line(message));
    CHECK_FALSE(xid_line(""));
    CHECK_FALSE(xid_line(" SUBSYSTEM=pci"));
    for (const auto* other :
         {"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03",
          "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)",
          "NVRM: Xid (",
          "NVRM: Xid ()",
          "NVRM: Xid (): 31",
          "NVRM: Xid (PCI:0000:3b:00",
          "NVRM: Xid (PCI:0000:3b:00)",
          "NVRM: Xid (PCI:0000:3b:00) 31",
          "NVRM: Xid (PCI:0000:3b:00): ",
          "NVRM: Xid (PCI:0000:3b:00): x",
          "NVRM: Xid (PCI:0000:3b:00): -31",
          "NVRM: Xid (PCI:0000:3b:00): 99999999999999999999",
          "NVRM: Xid (PCI:0000:3b:00): 10000, text",
          "NVRM: Xid (PCI:000000000:3b:123): 31",
          "NVRM: Xid (PCI:0000:3g:00): 31",
          "NVRM: Xid (PCI:0000:3b): 31",
          "nvidia-smi: NVRM: Xid (PCI:0000:3b:00): 31, MMU Fault"}) {
        CAPTURE(other);
        CHECK_FALSE(xid_line(record(other)));
    }
}

TEST_CASE("the text of an Xid is bounded, and printable") {
    const auto line = xid_line(
        record("NVRM: Xid (PCI:0000:3b:00): 31, \x1b[2J\t" + std::string(8192, 'x') + "\nmore"));
    REQUIRE(line);
    CHECK(line->text.size() <= 256);
    CHECK(line->text.starts_with("?[2J x"));
}

TEST_CASE("a description names the GPU and the error") {
    CHECK(
        describe(XidLine{"0000:3b:00", 31, 4, "MMU Fault"}) == "GPU 0000:3b:00, Xid 31: MMU Fault");
    CHECK(describe(XidLine{"0000:3b:00", 31, none, ""}) == "GPU 0000:3b:00, Xid 31");
}
