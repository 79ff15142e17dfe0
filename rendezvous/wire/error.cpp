// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/error.hpp"

#include <string>

namespace ddprun::wire {
namespace {

class Category : public boost::system::error_category {
public:
    const char* name() const noexcept override { return "ddprun.wire"; }

    std::string message(int value) const override {
        switch (static_cast<Error>(value)) {
            case Error::older_client: return "this is PyTorch 2.1 or older; 2.2 or newer is needed";
            case Error::big_endian_client: return "the client runs on a big-endian machine";
            case Error::wrong_magic: return "wrong magic number in VALIDATE";
            case Error::not_a_store_client: return "this is not a TCPStore client";
            case Error::repeated_validate: return "VALIDATE a second time";
            case Error::unknown_query: return "unknown request";
            case Error::key_too_long: return "key too long";
            case Error::value_too_long: return "value too long";
            case Error::too_many_keys: return "too many keys in one request";
            case Error::request_too_long: return "request too long";
            case Error::unexpected_reply: return "unexpected reply; not a TCPStore server?";
            case Error::unrequested_reply: return "an unrequested reply; not a TCPStore server?";
            case Error::reply_too_long: return "absurdly long reply; not a TCPStore server?";
        }
        return "unknown error";
    }
};

}  // namespace

const boost::system::error_category& error_category() {
    static const Category category;
    return category;
}

}  // namespace ddprun::wire
