// How what nodes say of themselves is written as JSON: texts cut and made UTF-8, so that whoever reads it can. Pure.
#pragma once

#include <string>

#include "launcher/harmless_text.hpp"
#include "rendezvous/codec/json_codec.hpp"

namespace ddprun::inline launch {

// Of what another node says, so much of one text is read.
inline constexpr std::size_t kMaxFindingText = 2048;
inline constexpr std::size_t kMaxReportDepth = 8;

struct ReportRules : JsonRules {
    static constexpr std::size_t kMaxText = kMaxFindingText;
    static constexpr std::size_t kMaxItemText = kMaxFindingText;

    static std::string text(const std::string& text, std::size_t limit) {
        return cut_text(valid_utf8(text), limit);
    }
};

}  // namespace ddprun::inline launch
