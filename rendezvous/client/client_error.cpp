// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/client_error.hpp"

#include <string>

namespace ddprun::client {
namespace {

class ClientCategory : public boost::system::error_category {
public:
    const char* name() const noexcept override { return "ddprun.client"; }

    std::string message(int value) const override {
        switch (static_cast<Error>(value)) {
            case Error::name_not_resolved: return "the name does not resolve";
            case Error::server_closed: return "the store has closed the connection";
            case Error::no_answer: return "the store does not answer";
            case Error::not_a_store: return "this is not a TCPStore server";
        }
        return "unknown error";
    }
};

}  // namespace

const boost::system::error_category& error_category() {
    static const ClientCategory category;
    return category;
}

}  // namespace ddprun::client
