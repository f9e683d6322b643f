// LifelineState: what a rank knows about the fate of its communicator, and what it must tell its neighbours.
// Pure.
//
// Notices travel round a ring in both directions. Each is handed on by whoever hears it for the first time,
// so it reaches all ranks unless the ring is broken in two places, and it stops by itself. Driven by
// Lifeline, under its lock. The first verdict is final: later ones are dropped, so all calls of a rank fail
// for one reason.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/lifeline_frame.hpp"

namespace ddprun {

// How many of its last collectives a rank remembers; one that runs further ahead is compared with at the
// deadline only.
inline constexpr std::size_t kRememberedCalls = 64;

class LifelineState {
  public:
    // `own_numbers`: what this rank declares says so, see kOwnNumbers.
    LifelineState(int rank, int world_size, bool own_numbers = false);

    // What must be sent, and to whom: to all neighbours but `except` (-1: to all).
    struct Sending {
        Notice notice;
        int except = -1;
    };
    using Sendings = std::vector<Sending>;

    // A neighbour said this.
    Sendings heard(const Notice& notice, int from);
    // A rank is lost, and how that shows, as the rest of "rank 3 died: …". Unless it had left before, it
    // died.
    Sendings lost(int rank, std::string_view how = kConnectionsClosed);
    // This rank ended the communicator.
    Sendings declare(const Verdict& verdict);
    // This rank leaves in order.
    Sendings leave();
    // This rank's deadline passed: asks everybody where they are. See progress().
    Sendings inquire();
    // This rank has waited long in its call, a collective: asks whether all others made the same. Any that
    // did not, now or earlier, ends the communicator with a mismatch. Questions of several ranks about the
    // same call become one, so they cost a notice a connection for each round.
    Sendings ask(std::uint32_t round);
    // What a neighbour must hear whose connection has come about only now.
    std::vector<Notice> for_new_neighbour() const;

    // This rank begins a call.
    void enter(const Call& call) {
        call_ = call;
        if (is_collective(call)) memory_of(call).call = call;
    }

    // True while there is no verdict and nobody has left.
    bool is_quiet() const noexcept { return !verdict_ && left_ == 0; }

    const std::optional<Verdict>& verdict() const noexcept { return verdict_; }

    // The number of the last collective which the rank finished before it left; nothing if it has not left.
    std::optional<std::uint64_t> left_after(int rank) const;
    // The lowest rank that left before finishing collective `sequence`; -1 if there is none.
    int left_before(std::uint64_t sequence) const;

    // What the ranks answered to the last inquiry, by rank; nothing for those that have not answered.
    std::vector<std::optional<Call>> progress() const;
    bool all_answered() const;

  private:
    struct Peer {
        std::optional<std::uint64_t> left_after;
        std::uint32_t answered = 0;  // the last inquiry this rank answered
        Call call;                   // its answer
    };

    // A collective, and what was asked about those of its number.
    struct Memory {
        Call call;  // this rank's; its sequence is another where this rank has not made that call
        QuestionNotice question;
    };

    static bool is_collective(const Call& call) noexcept {
        return call.sequence > 0 && !is_point_to_point(call.operation);
    }
    Memory& memory_of(const Call& call) noexcept { return memory_[call.sequence % kRememberedCalls]; }
    Sendings heard_question(const QuestionNotice& question, int from);
    Sendings heard_verdict(const Verdict& verdict, int from);
    Sendings heard_left(const LeftNotice& left, int from);
    Sendings heard_inquiry(const InquiryNotice& inquiry, int from);
    Sendings heard_progress(const ProgressNotice& progress, int from);
    bool is_rank(int rank) const noexcept { return rank >= 0 && rank < static_cast<int>(peers_.size()); }

    int rank_;
    bool own_numbers_;
    std::vector<Peer> peers_;
    Call call_;
    std::array<Memory, kRememberedCalls> memory_;
    std::uint32_t inquiry_ = 0;
    std::optional<Verdict> verdict_;
    int left_ = 0;  // peers that have left
};

}  // namespace ddprun
