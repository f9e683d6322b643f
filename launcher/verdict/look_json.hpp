// LookRules: what was seen of ranks, as JSON. All texts in it are harmless lines. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/harmless_text.hpp"
#include "launcher/verdict/observation.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/number_limits.hpp"

namespace ddprun {
inline namespace launch {

constexpr NumberRange range_of(Of<&Frame::line>) { return {0, 1'000'000'000}; }

inline constexpr NumberRange kProcessRange{0, 1 << 22};  // as the kernel numbers them
constexpr NumberRange range_of(Of<&Wait::process>) { return kProcessRange; }
constexpr NumberRange range_of(Of<&Wait::thread>) { return kProcessRange; }

constexpr std::size_t limit_of(Of<&CollectiveCall::awaited>) { return kMaxAwaited; }
constexpr NumberRange range_of(Of<&CollectiveCall::awaited>) { return kRankRange; }
constexpr NumberRange range_of(Of<&CollectiveCall::for_ms>) { return {0, kNoOwnRange.most}; }

constexpr std::size_t limit_of(Of<&ThreadObservation::frames>) { return kMaxFrames; }
constexpr NumberRange range_of(Of<&ThreadObservation::id>) { return kProcessRange; }

constexpr std::size_t limit_of(Of<&Observation::frames>) { return kMaxFrames; }
constexpr std::size_t limit_of(Of<&Observation::threads>) { return kMaxTold; }
constexpr std::size_t limit_of(Of<&Observation::peers>) { return kMaxPeers; }
constexpr NumberRange range_of(Of<&Observation::rank>) { return kRankRange; }
constexpr NumberRange range_of(Of<&Observation::node>) { return kNodeRange; }
constexpr NumberRange range_of(Of<&Observation::pid>) { return kProcessRange; }
constexpr NumberRange range_of(Of<&Observation::peers>) { return kRankRange; }
constexpr NumberRange range_of(Of<&Observation::exit_code>) { return {0, 255}; }

struct LookRules : JsonRules {
    static constexpr std::size_t kMaxText = 512;
    static constexpr std::size_t kMaxDepth = 8;

    static std::string text(const std::string& text, std::size_t limit) {
        return cut_text(harmless_line(text, limit), limit);
    }
};

}  // namespace launch
}  // namespace ddprun
