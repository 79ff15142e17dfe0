// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/control/error.hpp"

#include <string>

namespace ddprun::control {
namespace {

class ControlCategory : public boost::system::error_category {
public:
    const char* name() const noexcept override { return "ddprun.control"; }
    std::string message(int value) const override {
        switch (static_cast<Error>(value)) {
            case Error::frame_too_long: return "frame too long";
            case Error::not_json: return "not a JSON object";
            case Error::nested_too_deeply: return "JSON nested too deeply";
            case Error::unknown_type: return "unknown message type";
            case Error::bad_field: return "field missing, of the wrong kind or out of range";
        }
        return "unknown error";
    }
};

}  // namespace

const boost::system::error_category& error_category() {
    static const ControlCategory category;
    return category;
}

}  // namespace ddprun::control
