// HangVerdict says which ranks hold a job that does not get on. Plain values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

enum class VerdictKind { none, hang, deadlock, mismatch, straggler, waiting };
BOOST_DESCRIBE_ENUM(VerdictKind, none, hang, deadlock, mismatch, straggler, waiting)

struct HangVerdict {
    VerdictKind kind = VerdictKind::none;
    std::vector<int> suspects;  // ascending; none of them is in `waiting`
    std::vector<int> waiting;
    std::string sentence;  // which ranks do what, where; which wait where; empty: there is nothing
    std::vector<std::string> evidence;  // what was seen, kMaxEvidence at most

    bool operator==(const HangVerdict&) const = default;
};
BOOST_DESCRIBE_STRUCT(HangVerdict, (), (kind, suspects, waiting, sentence, evidence))
inline constexpr std::size_t kMaxEvidence = 16;

}  // namespace launch
}  // namespace ddprun
