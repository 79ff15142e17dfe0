// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

/// An error of an NVIDIA GPU ("Xid") in one record of the kernel's log, as the drivers 470 to 580
/// write it. Pure.
namespace ddprun::agent::health {

struct XidLine {
    /// PCI address without the function, "0000:3b:00".
    std::string gpu;
    int code = 0;
    /// The process that the driver blames, as the kernel numbers it.
    std::optional<int> pid = std::nullopt;
    /// The rest of the message, without pid and name; printable, at most 256 bytes.
    std::string text = {};

    bool operator==(const XidLine&) const = default;
};

/// `record`: a record of /dev/kmsg, "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;MESSAGE". None: it is no
/// Xid, or a process has written it and not the kernel.
std::optional<XidLine> xid_line(std::string_view record);

/// The address in XidLine's form, from "0000:3B:00.0" or "PCI:00000000:3b:00". None: it is none.
std::optional<std::string> pci_address(std::string_view text);

/// "GPU 0000:3b:00, Xid 79: GPU has fallen off the bus."
std::string describe(const XidLine& line);

}  // namespace ddprun::agent::health
