// Lifeline frames: the short notices that ranks hand round the lifeline ring (see lifeline.hpp). Pure.
//
// u8 kind, u8 0, u16 payload length, then the payload; integers little-endian. A notice is handed on
// unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/call/verdict.hpp"

namespace ddprun::inline detail {

inline constexpr std::size_t kMaxNoticePayload = 1024;
inline constexpr std::size_t kMaxNoticeText = 512;     // longer texts are cut
inline constexpr std::size_t kMaxNoticeCulprits = 64;  // further ones are left out

// `rank` left in order, having finished all collectives up to `sequence`.
struct LeftNotice {
    std::int32_t rank = 0;
    std::uint64_t sequence = 0;

    bool operator==(const LeftNotice&) const = default;
};

// Every rank is asked to say where it is, and what its collective of number `sequence` was (0: of none).
// `inquiry` counts such questions.
struct InquiryNotice {
    std::uint32_t inquiry = 0;
    std::uint64_t sequence = 0;

    bool operator==(const InquiryNotice&) const = default;
};

// Where `rank` was when it heard of `inquiry`: the call it made last, and the one that was asked for. If it
// has not made that yet, it says so once more when it does.
struct ProgressNotice {
    std::int32_t rank = 0;
    std::uint32_t inquiry = 0;
    Call call;
    Call asked;  // `none`: not made yet, or too long ago

    bool operator==(const ProgressNotice&) const = default;
};

// `rank` has waited long in `call`: a rank that made another call at its place shall say so. Asked again as the
// wait goes on, each time with a higher round.
struct QuestionNotice {
    std::int32_t rank = 0;
    std::uint32_t round = 0;
    Call call;

    bool operator==(const QuestionNotice&) const = default;
};

// The place of the alternative is the kind on the wire: add at the end.
using Notice = std::variant<Verdict, LeftNotice, InquiryNotice, ProgressNotice, QuestionNotice>;

std::string encode(const Notice& notice);

// Cuts the stream of one connection into notices. Holds one frame at most.
class NoticeReader {
  public:
    void add(std::span<const std::byte> bytes);
    // The next complete notice. Nothing while it is not there yet.
    std::optional<Notice> next();
    // True once the stream held what no rank sends; then it is of no use any more.
    bool broken() const noexcept { return broken_; }

  private:
    std::string bytes_;
    bool broken_ = false;
};

}  // namespace ddprun::inline detail
