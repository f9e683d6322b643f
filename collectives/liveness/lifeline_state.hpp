// LifelineState: what a rank knows about the fate of its communicator, and what it must tell its neighbours.
// Pure.
//
// Notices travel round a ring in both directions. A rank hands each notice on when it hears it for the first
// time. A notice therefore reaches all ranks unless the ring is broken in two places, and stops by itself.
// Driven by Lifeline, under its lock. The first verdict is final: later ones are dropped, so all calls of a
// rank fail for one reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/liveness/judgement.hpp"

namespace ddprun {
inline namespace detail {

// Notice: the short messages that ranks hand round the lifeline ring (see lifeline.hpp). Pure.
//
// A frame is u8 kind, u8 0, u16 payload length, then the payload; integers are little-endian. A notice is
// handed on unchanged.

inline constexpr std::size_t kMaxNoticePayload = 1024;
inline constexpr std::size_t kMaxNoticeText = 512;     // longer texts are cut
inline constexpr std::size_t kMaxNoticeCulprits = 64;  // further ones are left out

// LeftNotice: `rank` left in order, having finished all collectives up to `sequence`.
struct LeftNotice {
    std::int32_t rank = 0;
    std::uint64_t sequence = 0;

    bool operator==(const LeftNotice&) const = default;
};

// InquiryNotice asks every rank to say where it is, and what its collective of number `sequence` was (0: of
// none). `inquiry` counts such questions.
struct InquiryNotice {
    std::uint32_t inquiry = 0;
    std::uint64_t sequence = 0;

    bool operator==(const InquiryNotice&) const = default;
};

// ProgressNotice says where `rank` was when it heard of `inquiry`: the call it made last, and the one that
// was asked for. If the rank has not made the latter yet, it says so once more when it does.
struct ProgressNotice {
    std::int32_t rank = 0;
    std::uint32_t inquiry = 0;
    Call call;
    Call asked;  // `none`: not made yet, or too long ago

    bool operator==(const ProgressNotice&) const = default;
};

// QuestionNotice: `rank` has waited long in `call`: a rank that made another call at its place must say so.
// The question is repeated as the wait goes on, each time with a higher round.
struct QuestionNotice {
    std::int32_t rank = 0;
    std::uint32_t round = 0;
    Call call;

    bool operator==(const QuestionNotice&) const = default;
};

// Notice: any message of the ring. The place of the alternative is the kind on the wire: add at the end.
using Notice = std::variant<Verdict, LeftNotice, InquiryNotice, ProgressNotice, QuestionNotice>;

std::string encode(const Notice& notice);

// NoticeReader cuts the stream of one connection into notices. Holds one frame at most.
class NoticeReader {
  public:
    void add(std::span<const std::byte> bytes);
    // Returns the next complete notice; nothing while none is complete.
    std::optional<Notice> next();
    // Returns true once the stream held what no rank sends; then the stream is of no use any more.
    bool broken() const noexcept { return broken_; }

  private:
    std::string bytes_;
    bool broken_ = false;
};

// kRememberedCalls: how many of its last collectives a rank remembers. A rank that is further ahead is
// compared with at the deadline only.
inline constexpr std::size_t kRememberedCalls = 64;
// kQuestionsToJudge: questions about one disagreement until it is judged by what is known then. With the
// pauses of WaitSchedule, 3.5 s after the first.
inline constexpr std::uint32_t kQuestionsToJudge = 3;

class LifelineState {
  public:
    // Makes the state of a new communicator. With `own_numbers` the verdicts that this rank declares begin
    // with kOwnNumbers.
    LifelineState(int rank, int world_size, bool own_numbers = false);

    // Sending: a notice that must be sent, to all neighbours but `except` (-1: to all).
    struct Sending {
        Notice notice;
        int except = -1;
    };
    using Sendings = std::vector<Sending>;

    // Takes in a notice from a neighbour.
    Sendings heard(const Notice& notice, int from);
    // Takes in the loss of a rank, and how the loss shows, as the rest of "rank 3 died: …". The rank died,
    // unless it had left before.
    Sendings lost(int rank, std::string_view how = kConnectionsClosed);
    // Ends the communicator with this verdict, which this rank declares.
    Sendings declare(const Verdict& verdict);
    // Leaves in order.
    Sendings leave();
    // Inquires, because this rank's deadline passed: asks all ranks where they are. See progress().
    Sendings inquire();
    // Asks whether all other ranks made the same call, a collective, because this rank has waited long in it.
    // A rank that made another call, now or earlier, leads to suspect(), and by the third question to
    // conclude(). Questions of several ranks about the same call become one, so a round costs one notice for
    // each connection.
    Sendings ask(std::uint32_t round);
    // Suspects that the ranks do not all make the same collective of that number. Asks which rank made which,
    // and ends the communicator once it is known what most of them do.
    Sendings suspect(std::uint64_t sequence);
    // Concludes what suspect() began, by what is known now, or by `otherwise` where that is not enough. There
    // is a verdict afterwards.
    Sendings conclude(std::uint64_t sequence, const Verdict& otherwise);
    // Returns what a neighbour must hear when its connection has only now been made.
    std::vector<Notice> for_new_neighbour() const;

    // Begins a call of this rank.
    void enter(const Call& call) {
        call_ = call;
        if (is_collective(call)) memory_of(call).call = call;
    }
    // Returns true when the current call is the one an inquiry was about, which this rank had not made then:
    // it has to answer once more.
    bool owes_answer() const noexcept { return owed_ != 0 && call_.sequence >= owed_; }
    Sendings answer();

    // Returns true while there is no verdict and no rank has left.
    bool is_quiet() const noexcept { return !verdict_ && left_ == 0; }

    const std::optional<Verdict>& verdict() const noexcept { return verdict_; }

    // Returns the number of the last collective that the rank finished before it left; nothing if it has not
    // left.
    std::optional<std::uint64_t> left_after(int rank) const;
    // Returns the lowest rank that left before finishing collective `sequence`; -1 if there is none.
    int left_before(std::uint64_t sequence) const;

    // Returns the ranks' answers to the last inquiry, by rank; nothing for ranks that have not answered.
    std::vector<std::optional<Call>> progress() const;
    bool all_answered() const;

  private:
    struct Peer {
        std::optional<std::uint64_t> left_after;
        std::uint32_t answered = 0;  // the last inquiry this rank answered
        Call call;                   // its answer
        Call asked;  // and the call that was asked for; `none` while the rank has not made that
    };

    // Memory: a collective, and what was asked about the collectives of its number.
    struct Memory {
        Call call;  // this rank's; its sequence is another where this rank has not made that call
        QuestionNotice question;
    };

    static bool is_collective(const Call& call) noexcept {
        return call.sequence > 0 && !is_point_to_point(call.operation);
    }
    Memory& memory_of(const Call& call) noexcept { return memory_[call.sequence % kRememberedCalls]; }
    // Returns this rank's collective of that number; `none` where the rank has not made it, or has forgotten
    // it.
    Call remembered(std::uint64_t sequence) const noexcept {
        const Call& call = memory_[sequence % kRememberedCalls].call;
        return sequence > 0 && call.sequence == sequence ? call : Call{};
    }
    Sendings answer_now();
    Sendings disagreement(const QuestionNotice& question, const Verdict& otherwise);
    // Returns where all ranks stand towards the collective of that number.
    std::vector<Stand> stands(std::uint64_t sequence) const;
    // Adds to `sendings` the verdict on what is suspected, if enough is known.
    Sendings judged(Sendings sendings);
    Sendings take(const QuestionNotice& question, int from);
    Sendings take(const Verdict& verdict, int from);
    Sendings take(const LeftNotice& left, int from);
    Sendings take(const InquiryNotice& inquiry, int from);
    Sendings take(const ProgressNotice& progress, int from);
    bool is_rank(int rank) const noexcept { return rank >= 0 && rank < static_cast<int>(peers_.size()); }

    int rank_;
    bool own_numbers_;
    std::vector<Peer> peers_;
    Call call_;
    std::array<Memory, kRememberedCalls> memory_;
    std::uint32_t inquiry_ = 0;
    std::uint64_t asked_ = 0;      // the collective that the last inquiry was about; 0: none
    std::uint64_t owed_ = 0;       // the same number while this rank has not made that call; else 0
    std::uint64_t suspected_ = 0;  // see suspect(); 0: none
    std::uint32_t suspected_round_ = 0;
    std::optional<Verdict> verdict_;
    int left_ = 0;  // peers that have left
};

}  // namespace detail
}  // namespace ddprun
