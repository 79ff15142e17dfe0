// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/fault.hpp"

#include <string>

namespace ddprun::checkpoint {
namespace {

class FaultCategory final : public boost::system::error_category {
public:
    const char* name() const noexcept override { return "ddprun.checkpoint"; }

    std::string message(int value) const override {
        switch (static_cast<Fault>(value)) {
            case Fault::not_a_checkpoint: return "this is no checkpoint file";
            case Fault::cut_short: return "the file is cut short";
            case Fault::damaged: return "the file is damaged: its checksum does not fit";
            case Fault::later_version: return "the file was written by a later version of ddprun";
            case Fault::malformed: return "the file breaks the rules of its format";
            case Fault::misnamed: return "its name is not what it says inside";
        }
        return "unknown fault";
    }
};

}  // namespace

error_code make_error_code(Fault fault) {
    static const FaultCategory category;
    return {static_cast<int>(fault), category};
}

}  // namespace ddprun::checkpoint
