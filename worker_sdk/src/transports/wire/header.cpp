// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/wire/header.hpp"

namespace ddprun::groups {

Header header_of(const Collective& call, std::uint32_t tag, std::uint64_t bytes) {
    return {
        Header::right_sign,
        tag,
        bytes,
        static_cast<std::uint32_t>(call.kind),
        static_cast<std::uint32_t>(call.type),
        static_cast<std::uint32_t>(call.op),
        call.root,
        call.receiver,
        0,
        call.count,
        call.sequence};
}

std::optional<Collective> call_in(const Header& header) {
    const bool is_call = header.sign == Header::right_sign &&
                         header.kind <= static_cast<std::uint32_t>(Collective::Kind::recv) &&
                         header.type <= static_cast<std::uint32_t>(ElementType::float8_e5m2) &&
                         header.op <= static_cast<std::uint32_t>(Op::product);
    if (!is_call) return {};
    Collective call;
    call.kind = static_cast<Collective::Kind>(header.kind);
    call.type = static_cast<ElementType>(header.type);
    call.op = static_cast<Op>(header.op);
    call.root = header.root;
    call.receiver = header.receiver;
    call.count = header.count;
    call.sequence = header.sequence;
    return call;
}

}  // namespace ddprun::groups
