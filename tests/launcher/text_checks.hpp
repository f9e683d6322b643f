// What text_fuzz asks of texts and of what was read from them.
#pragma once

#include <string_view>
#include <variant>

#include "launcher/harmless_text.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {

using Text = std::string_view;

template <class Value, class Error>
const Value* value_of(const std::variant<Value, Error>& parsed) {
    return std::get_if<Value>(&parsed);
}

inline bool is_utf8(Text text) { return valid_utf8(text) == text; }

inline void must(bool good, const char* otherwise) { check(good, otherwise); }

inline bool is_harmless(Text line) {
    for (std::size_t i = 0; i < line.size(); ++i) {
        const auto byte = static_cast<unsigned char>(line[i]);
        if (byte < 0x20 || byte == 0x7f) return false;
        // C1 as UTF-8, and what turns the direction of text or ends a line.
        if (byte == 0xc2 && static_cast<unsigned char>(line[i + 1]) < 0xa0) return false;
        const Text character = line.substr(i, 3);
        for (const char* bad :
             {"\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202e", "\u2066", "\u2069"})
            if (character == bad) return false;
    }
    return is_utf8(line);
}

}  // namespace ddprun
