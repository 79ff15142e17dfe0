// SPDX-License-Identifier: Apache-2.0
#include "agent/output/json_line.hpp"

#include "rendezvous/base/json_text.hpp"

namespace ddprun::agent {

JsonLine::JsonLine(const LineOrigin& origin) {
    origin_ = R"(","run":)";
    append_json_string(origin_, origin.run_id);
    origin_ += R"(,"round":)" + std::to_string(origin.round) + R"(,"host":)";
    append_json_string(origin_, origin.host);
    origin_ += R"(,"rank":)" + std::to_string(origin.rank) + R"(,"stream":)";
    append_json_string(origin_, origin.stream);
}

void JsonLine::append_to(std::string& out, const LinePiece& piece, std::string_view time) const {
    out += R"({"time":")";
    out += time;
    out += origin_;
    if (!piece.is_whole_line()) out += R"(,"part":)" + std::to_string(piece.part);
    if (!piece.ends_line) out += R"(,"continues":true)";
    out += R"(,"message":)";
    append_json_string(out, piece.text);
    out += "}\n";
}

}  // namespace ddprun::agent
