// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tunnel/error.hpp"

#include <string>

namespace ddprun::tunnel {
namespace {

class TunnelCategory : public boost::system::error_category {
public:
    const char* name() const noexcept override { return "ddprun.tunnel"; }

    std::string message(int value) const override {
        switch (static_cast<Error>(value)) {
            case Error::other_protocol: return "it does not begin with the tunnel's protocol";
            case Error::unknown_kind: return "a frame of an unknown kind";
            case Error::wrong_length: return "a frame of a length that its kind does not have";
            case Error::wrong_direction: return "a stream was opened by the end that accepts them";
            case Error::wrong_stream: return "a frame of a stream that was never opened, or twice";
            case Error::too_much_data: return "more data than there was credit for";
            case Error::too_much_credit: return "more credit than data was sent";
            case Error::after_end: return "a frame after the end of its stream";
        }
        return "unknown error";
    }
};

}  // namespace

const boost::system::error_category& error_category() {
    static const TunnelCategory category;
    return category;
}

}  // namespace ddprun::tunnel
