// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/error.hpp"

#include <string>

namespace ddprun::tls {
namespace {

class TlsCategory : public boost::system::error_category {
public:
    const char* name() const noexcept override { return "ddprun.tls"; }

    std::string message(int value) const override {
        switch (static_cast<Error>(value)) {
            case Error::not_encrypted: return "it answers without encryption";
            case Error::wrong_secret: return "the two ends do not have the same secret";
            case Error::not_authentic: return "what was received has been changed on the way";
            case Error::closed: return "the other end has ended the encryption";
            case Error::not_trusted: return "its certificate is not accepted";
            case Error::refused: return "it refuses the connection";
        }
        return "unknown error";
    }
};

}  // namespace

const boost::system::error_category& error_category() {
    static const TlsCategory category;
    return category;
}

}  // namespace ddprun::tls
